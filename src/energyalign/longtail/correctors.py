"""What is done to the logits of a trained network: the rows that share one training run."""

from __future__ import annotations

from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts


class Corrector(NamedTuple):
    """An estimator with a way of sharing, under the name of its row."""

    estimator: str
    clusters: SharingChoice
    description: str
    reference: str = "Zhao et al. 2021"

    @property
    def reads_evidence(self) -> bool:
        """Whether another sample could change the shifts."""
        return self.estimator not in ("none", "prior")

    def fit(self, evidence: Evidence) -> Shifts:
        """The shifts from this evidence."""
        return fit_shifts(evidence, estimator=self.estimator, clusters=self.clusters)


CORRECTORS: dict[str, Corrector] = {
    "raw": Corrector("none", "per-class", "the network as trained", ""),
    "la-post-hoc": Corrector("prior", "per-class", "logit adjustment: minus the log prior", "Menon et al. 2021"),
    "ea": Corrector("lse", "jenks", "energy aligning as in the paper: log-sum-exp, the best number of Jenks clusters"),
    "ea-marginal": Corrector(
        "marginal", "monotone", "energies from the mean posterior, monotone in the counts", "energyalign"
    ),
    "ea-auto": Corrector("auto", "auto", "estimator and sharing as the evidence says", "energyalign"),
}


def find_corrector(name: str) -> Corrector:
    """By name; ``ea-M8`` is the paper's estimator with 8 Jenks clusters."""
    if name in CORRECTORS:
        return CORRECTORS[name]
    prefix, _, number = name.partition("-M")
    if prefix == "ea" and number.isdecimal() and int(number) >= 1:
        return Corrector("lse", int(number), f"energy aligning with {number} Jenks clusters")
    raise EnergyAlignError(f"unknown corrector {name!r}: choose {', '.join(CORRECTORS)}, or ea-M8 for 8 clusters.")
