"""Estimators of class energies: one file each, one line each in the registry."""

from __future__ import annotations

from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.base import Energies, Estimator
from energyalign.core.estimators.lse import Lse
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.estimators.none import NoCorrection
from energyalign.core.estimators.prior import Prior

__all__ = ["ESTIMATORS", "Energies", "Entry", "Estimator", "make_estimator"]


class Entry(NamedTuple):
    """A row of the registry."""

    estimator: type[Lse] | type[Marginal] | type[Prior] | type[NoCorrection]
    description: str
    reference: str


ESTIMATORS: dict[str, Entry] = {
    "lse": Entry(Lse, "log-sum-exp of the logits over the sample, per class", "Zhao et al. 2021, eq. 11"),
    "marginal": Entry(Marginal, "mean posterior over the sample made equal for all classes", "energyalign"),
    "prior": Entry(Prior, "logit adjustment: -tau log of the training prior; counts only", "Menon et al. 2021"),
    "none": Entry(NoCorrection, "the raw model", ""),
}


def make_estimator(name: str, *, tau: float = 1.0) -> Estimator:
    """The estimator of that name. `tau` scales `prior` and concerns no other."""
    if name not in ESTIMATORS:
        raise EnergyAlignError(f"unknown estimator {name!r}: choose {', '.join([*ESTIMATORS, 'auto'])}.")
    prior = Prior(tau)  # a wrong tau is refused whatever the estimator: it is kept with the result
    return prior if name == "prior" else ESTIMATORS[name].estimator()
