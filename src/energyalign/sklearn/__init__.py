"""scikit-learn interface: an aligner of logits, and a meta-estimator for any classifier."""
