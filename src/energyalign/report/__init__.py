"""Pictures and pages from results. Trains nothing."""
