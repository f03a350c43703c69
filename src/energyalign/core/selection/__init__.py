"""`auto`: candidates, cross-fitting, the decision."""
