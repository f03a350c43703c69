"""`shrunk`: the estimator, the likelihood and prior of its model, and its maximum a posteriori fit."""

from energyalign.core.estimators.shrunk.estimator import Shrunk

__all__ = ["Shrunk"]
