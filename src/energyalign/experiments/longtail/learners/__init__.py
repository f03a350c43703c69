"""Long-tailed learners. To add one, write a file, a line here and a row of `longtail/methods.py`."""

from __future__ import annotations

from energyalign.experiments.engine.config import look_up
from energyalign.experiments.longtail.learners.bbn import Bbn
from energyalign.experiments.longtail.learners.cb_focal import ClassBalancedFocal
from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.longtail.learners.de_confound import DeConfound
from energyalign.experiments.longtail.learners.deferred import DeferredResampling, DeferredReweighting, LdamDrw
from energyalign.experiments.longtail.learners.focal import Focal
from energyalign.experiments.longtail.learners.la_loss import LogitAdjustedLdam, LogitAdjustedLoss
from energyalign.experiments.longtail.learners.lade import Lade
from energyalign.experiments.longtail.learners.mixup import ManifoldMixup, Mixup
from energyalign.experiments.longtail.learners.oltr_stage_1 import OltrStage1
from energyalign.experiments.longtail.learners.ride import Ride

LEARNERS: dict[str, CrossEntropy] = {
    learner.name: learner
    for learner in (
        CrossEntropy(), Focal(), Mixup(), ManifoldMixup(), DeferredReweighting(), DeferredResampling(),
        ClassBalancedFocal(), LdamDrw(), Bbn(), LogitAdjustedLoss(), LogitAdjustedLdam(),
        DeConfound(), OltrStage1(), Lade(), Ride(),
    )
}  # fmt: skip


def find_learner(name: str) -> CrossEntropy:
    """Look up a learner by name, with the original's hyper-parameters."""
    return look_up(LEARNERS, name, "learner")


__all__ = ["LEARNERS", "CrossEntropy", "find_learner"]
