"""`marginal`: the estimator, the convex problem it solves, and the standard errors of the solution."""

from energyalign.core.estimators.marginal.estimator import Marginal

__all__ = ["Marginal"]
