"""The scikit-learn contract: an aligner of logits, and a meta-estimator around any classifier."""
