"""What is done to a trained network: the rows that share one training run. One file each, and a line here."""

from __future__ import annotations

from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.longtail.correctors.base import Corrected, Corrector
from energyalign.longtail.correctors.crt import ClassifierRetraining
from energyalign.longtail.correctors.lws import LearnableWeightScaling
from energyalign.longtail.correctors.ncm import NearestClassMean
from energyalign.longtail.correctors.oltr import Oltr
from energyalign.longtail.correctors.shifts import ShiftCorrector
from energyalign.longtail.correctors.tau_norm import TauNorm
from energyalign.longtail.correctors.tde import Tde


class CorrectorEntry(NamedTuple):
    """A row of the registry."""

    corrector: Corrector
    description: str
    reference: str


CORRECTORS: dict[str, CorrectorEntry] = {
    "raw": CorrectorEntry(ShiftCorrector("none", "per-class"), "the network as trained", ""),
    "la-post-hoc": CorrectorEntry(
        ShiftCorrector("prior", "per-class"), "logit adjustment: minus the log prior", "Menon et al. 2021"
    ),
    "ea": CorrectorEntry(
        ShiftCorrector("lse", "jenks"),
        "energy aligning as in the paper: log-sum-exp, the best number of Jenks clusters",
        "Zhao et al. 2021",
    ),
    "ea-marginal": CorrectorEntry(
        ShiftCorrector("marginal", "monotone"),
        "energies from the mean posterior, monotone in the counts",
        "energyalign",
    ),
    "ea-auto": CorrectorEntry(
        ShiftCorrector("auto", "auto"), "estimator and sharing as the evidence says", "energyalign"
    ),
    "tde": CorrectorEntry(Tde(), "less the effect of the mean feature's direction", "Tang et al. 2020"),
    "tau-norm": CorrectorEntry(TauNorm(), "weights divided by a power of their length", "Kang et al. 2020"),
    "ncm": CorrectorEntry(NearestClassMean(), "nearest class mean of the features", "Kang et al. 2020"),
    "crt": CorrectorEntry(ClassifierRetraining(), "the head trained again on balanced classes", "Kang et al. 2020"),
    "lws": CorrectorEntry(LearnableWeightScaling(), "a learned scale for each class", "Kang et al. 2020"),
    "oltr": CorrectorEntry(Oltr(), "a second stage with features enriched from class centroids", "Liu et al. 2019"),
}  # fmt: skip
STANDARD = ("raw", "la-post-hoc", "ea", "ea-marginal", "ea-auto")
"""Those that stand beside each other in every table: they cost one pass over the evidence."""


def find_corrector(name: str) -> Corrector:
    """By name; ``ea-M8`` is the paper's estimator with 8 Jenks clusters."""
    if name in CORRECTORS:
        return CORRECTORS[name].corrector
    prefix, _, number = name.partition("-M")
    if prefix == "ea" and number.isdecimal() and int(number) >= 1:
        return ShiftCorrector("lse", int(number))
    raise EnergyAlignError(f"unknown corrector {name!r}: choose {', '.join(CORRECTORS)}, or ea-M8 for 8 clusters.")


__all__ = ["CORRECTORS", "STANDARD", "Corrected", "Corrector", "CorrectorEntry", "find_corrector"]
