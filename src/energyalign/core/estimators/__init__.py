"""Estimators of class energies: a file or folder each, and a line each in the registry `ESTIMATORS`."""

from __future__ import annotations

from energyalign.core.checks import check_tau
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.base import Energies, Estimate, Estimator
from energyalign.core.estimators.lse import Lse
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.estimators.none import NoCorrection
from energyalign.core.estimators.prior import Prior
from energyalign.core.estimators.shrunk import Shrunk

__all__ = ["ESTIMATORS", "Energies", "Estimate", "Estimator", "look_up_estimator", "make_estimator"]

ESTIMATORS: dict[str, type[Estimator]] = {
    "lse": Lse,
    "marginal": Marginal,
    "shrunk": Shrunk,
    "prior": Prior,
    "none": NoCorrection,
}


def look_up_estimator(name: str) -> type[Estimator]:
    """Return the class of an estimator."""
    if name not in ESTIMATORS:
        raise EnergyAlignError(f"unknown estimator {name!r}: choose {', '.join([*ESTIMATORS, 'auto'])}.")
    return ESTIMATORS[name]


def make_estimator(name: str, *, tau: float = 1.0) -> Estimator:
    """Create an estimator. Every estimator refuses an invalid `tau`, because it is stored with the result."""
    estimator = look_up_estimator(name)
    check_tau(tau)
    return estimator.make(tau=tau)
