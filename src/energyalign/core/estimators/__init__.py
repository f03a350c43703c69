"""Estimators of class energies: a file or folder each, a line each in the registry, imported on first use."""

from __future__ import annotations

from importlib import import_module

from energyalign.core.checks import check_tau
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.base import Energies, Estimate, Estimator

__all__ = ["ESTIMATORS", "Energies", "Estimate", "Estimator", "look_up_estimator", "make_estimator"]

# `module:name` below this package, or the class itself.
ESTIMATORS: dict[str, str | type[Estimator]] = {
    "lse": "lse:Lse",
    "marginal": "marginal:Marginal",
    "shrunk": "shrunk:Shrunk",
    "prior": "prior:Prior",
    "none": "none:NoCorrection",
}


def look_up_estimator(name: str) -> type[Estimator]:
    """Return the class of an estimator."""
    if name not in ESTIMATORS:
        raise EnergyAlignError(f"unknown estimator {name!r}: choose {', '.join([*ESTIMATORS, 'auto'])}.")
    found = ESTIMATORS[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        estimator: type[Estimator] = getattr(import_module(f"{__name__}.{module}"), attribute)
        return estimator
    return found


def make_estimator(name: str, *, tau: float = 1.0) -> Estimator:
    """Create an estimator. Every estimator refuses an invalid `tau`, because it is stored with the result."""
    estimator = look_up_estimator(name)
    check_tau(tau)
    return estimator.make(tau=tau)
