"""Trainings, one file each. A new one is a file, a line here, and a row of `energyalign.longtail.methods`."""

from __future__ import annotations

from typing import TypeAlias

from energyalign.experiment.registry import found
from energyalign.longtail.learners.bbn import Bbn
from energyalign.longtail.learners.cb_focal import ClassBalancedFocal
from energyalign.longtail.learners.ce_drs import DeferredResampling
from energyalign.longtail.learners.ce_drw import DeferredReweighting
from energyalign.longtail.learners.cross_entropy import CrossEntropy
from energyalign.longtail.learners.focal import Focal
from energyalign.longtail.learners.la_loss import LogitAdjustedLoss
from energyalign.longtail.learners.la_loss_ldam import LogitAdjustedLdam
from energyalign.longtail.learners.ldam_drw import LdamDrw
from energyalign.longtail.learners.manifold_mixup import ManifoldMixup
from energyalign.longtail.learners.mixup import Mixup
from energyalign.longtail.learners.oltr_stage_1 import OltrStage1

Learner: TypeAlias = CrossEntropy  # every learner is one with differences

LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for learner in (
        CrossEntropy(), Focal(), Mixup(), ManifoldMixup(), DeferredReweighting(), DeferredResampling(),
        ClassBalancedFocal(), LdamDrw(), Bbn(), LogitAdjustedLoss(), LogitAdjustedLdam(),
        OltrStage1(),
    )
}  # fmt: skip


def find_learner(name: str) -> Learner:
    """By name, with the original's hyper-parameters."""
    return found(LEARNERS, name, "learner")


__all__ = ["LEARNERS", "CrossEntropy", "Learner", "find_learner"]
