"""What is done to the network after a step: rows that share one training run. One file each, and a line here."""

from __future__ import annotations

from typing import NamedTuple

from energyalign.experiment.registry import found
from energyalign.incremental.correctors.base import Corrected, Corrector
from energyalign.incremental.correctors.bic import BiasCorrection
from energyalign.incremental.correctors.il2m import IL2M
from energyalign.incremental.correctors.nme import NearestMeanOfExemplars
from energyalign.incremental.correctors.raw import Raw
from energyalign.incremental.correctors.scail import ScaIL
from energyalign.incremental.correctors.shifts import OLD_NEW, ShiftCorrector
from energyalign.incremental.correctors.wa import WeightAligning


class CorrectorEntry(NamedTuple):
    """A row of the registry."""

    corrector: Corrector
    description: str
    reference: str


CORRECTORS: dict[str, CorrectorEntry] = {
    "raw": CorrectorEntry(Raw(), "the network as trained", ""),
    "ea": CorrectorEntry(
        ShiftCorrector("lse", OLD_NEW, feeds_back=True),
        "energy aligning as in the paper: one shift of all new classes; the next teacher carries it",
        "Zhao et al. 2021",
    ),
    "ea-marginal": CorrectorEntry(
        ShiftCorrector("marginal", OLD_NEW), "one shift of all new classes, from the mean posterior", "energyalign"
    ),
    "prior": CorrectorEntry(
        ShiftCorrector("prior", "per-class"), "logits minus the log prior of the step", "Belouadah and Popescu 2020"
    ),
    "bic": CorrectorEntry(
        BiasCorrection(), "a scale and a shift of new classes, from held-out images; the next teacher carries them",
        "Wu et al. 2019",
    ),
    "wa": CorrectorEntry(
        WeightAligning(), "weights of new classes as long as those of old ones; the next step goes on with them",
        "Zhao et al. 2020",
    ),
    "il2m": CorrectorEntry(
        IL2M(), "logits of old classes times what they have lost since they were new", "Belouadah and Popescu 2019"
    ),
    "il2m-softmax": CorrectorEntry(IL2M("softmax"), "the same with softmax outputs", "Belouadah and Popescu 2019"),
    "scail": CorrectorEntry(
        ScaIL(), "first weights of old classes, scaled to the new ones", "Belouadah and Popescu 2020"
    ),
    "nme": CorrectorEntry(NearestMeanOfExemplars(), "nearest mean of the exemplars", "Rebuffi et al. 2017"),
}  # fmt: skip
STANDARD = ("raw", "prior", "ea", "ea-marginal")
"""Those that stand beside each other in every table: they cost one pass over the evidence."""


def find_corrector(name: str) -> Corrector:
    """By name."""
    return found(CORRECTORS, name, "corrector").corrector


__all__ = ["CORRECTORS", "STANDARD", "Corrected", "Corrector", "CorrectorEntry", "find_corrector"]
