"""Trainings, one file each. A new one is a file, a line here, and a row of `incremental/methods.py`."""

from __future__ import annotations

from energyalign.experiments.engine.config import look_up
from energyalign.experiments.incremental.learners.bic import BiC
from energyalign.experiments.incremental.learners.der import DER
from energyalign.experiments.incremental.learners.distill import Distill
from energyalign.experiments.incremental.learners.eeil import EEIL
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning
from energyalign.experiments.incremental.learners.foster import Foster
from energyalign.experiments.incremental.learners.icarl import ICaRL
from energyalign.experiments.incremental.learners.joint import Joint
from energyalign.experiments.incremental.learners.lwf import LwF
from energyalign.experiments.incremental.learners.podnet import PODNet
from energyalign.experiments.incremental.learners.ranpac import RanPac
from energyalign.experiments.incremental.learners.rps import RandomPathSelection
from energyalign.experiments.incremental.learners.slda import StreamingLda
from energyalign.experiments.incremental.learners.wa import WA

LEARNERS: dict[str, FineTuning] = {
    learner.name: learner
    for learner in (
        FineTuning(),
        Distill(),
        Joint(),
        LwF(),
        ICaRL(),
        EEIL(),
        BiC(),
        WA(),
        RandomPathSelection(),
        PODNet(),
        DER(),
        Foster(),
        StreamingLda(),
        RanPac(),
    )
}


def find_learner(name: str) -> FineTuning:
    """Look up a learner by name, with the original's hyper-parameters."""
    return look_up(LEARNERS, name, "learner")


__all__ = ["LEARNERS", "FineTuning", "find_learner"]
