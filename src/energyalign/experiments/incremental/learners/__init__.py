"""Class-incremental learners. To add one, write a file, a line here and a row of `incremental/methods.py`."""

from __future__ import annotations

from energyalign.experiments.engine.config import look_up
from energyalign.experiments.incremental.learners.der import DER
from energyalign.experiments.incremental.learners.distill import WA, BiC, Distill
from energyalign.experiments.incremental.learners.eeil import EEIL
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning, Joint
from energyalign.experiments.incremental.learners.foster import Foster
from energyalign.experiments.incremental.learners.icarl import ICaRL, LwF
from energyalign.experiments.incremental.learners.podnet import PODNet
from energyalign.experiments.incremental.learners.rps import RandomPathSelection
from energyalign.experiments.incremental.learners.statistics import RanPac, StreamingLda

LEARNERS: dict[str, FineTuning] = {
    learner.name: learner
    for learner in (
        FineTuning(), Distill(), Joint(), LwF(), ICaRL(), EEIL(), BiC(), WA(), RandomPathSelection(), PODNet(), DER(),
        Foster(), StreamingLda(), RanPac(),
    )
}  # fmt: skip


def find_learner(name: str) -> FineTuning:
    """Look up a learner by name, with the original's hyper-parameters."""
    return look_up(LEARNERS, name, "learner")


__all__ = ["LEARNERS", "FineTuning", "find_learner"]
