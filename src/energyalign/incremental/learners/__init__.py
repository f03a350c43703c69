"""Trainings, one file each. A new one is a file, a line here, and a row of `energyalign.incremental.methods`."""

from __future__ import annotations

from typing import TypeAlias

from energyalign.experiment.registry import found
from energyalign.incremental.learners.bic import BiC
from energyalign.incremental.learners.distill import Distill
from energyalign.incremental.learners.eeil import EEIL
from energyalign.incremental.learners.fine_tuning import FineTuning
from energyalign.incremental.learners.icarl import ICaRL
from energyalign.incremental.learners.joint import Joint
from energyalign.incremental.learners.lwf import LwF
from energyalign.incremental.learners.rps import RandomPathSelection
from energyalign.incremental.learners.wa import WA

Learner: TypeAlias = FineTuning  # every learner is one with differences

LEARNERS: dict[str, Learner] = {
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
    )
}


def find_learner(name: str) -> Learner:
    """By name, with the original's hyper-parameters."""
    return found(LEARNERS, name, "learner")


__all__ = ["LEARNERS", "Learner", "find_learner"]
