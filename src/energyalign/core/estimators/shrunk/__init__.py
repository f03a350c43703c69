"""Empirical Bayes: the log prior, and per class as far as the labels say so."""

from energyalign.core.estimators.shrunk.estimator import Shrunk

__all__ = ["Shrunk"]
