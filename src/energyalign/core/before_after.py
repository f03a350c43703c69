"""Accuracy per class, before and after a correction."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.parts import Block
from energyalign.core.arrays import Floats, like, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.metrics import ClassScores
from energyalign.core.selection.scoring import assign_folds
from energyalign.core.sharing import Sharing
from energyalign.core.shifts import Shifts


class BeforeAfter(NamedTuple):
    """Scores of the raw and the aligned model on the same samples."""

    before: ClassScores
    after: ClassScores

    def merge(self, other: BeforeAfter) -> None:
        """Add the samples of `other`."""
        self.before.merge(other.before)
        self.after.merge(other.after)


def before_and_after(evidence: Evidence, shifts: Shifts) -> BeforeAfter:
    """Score the raw and the aligned model, the aligned one by cross-fitting.

    The samples are split into folds, and each fold is scored with shifts fitted on the others, so that no sample is
    scored with shifts it helped to fit. A class with a single sample is not scored. `shifts` must aim at balanced
    accuracy without constraints, since a fold is fitted with their estimator, strength and target prior only.
    """
    if evidence.labels is None:
        raise EnergyAlignError("labels are required to measure accuracy: give batches with labels.")
    estimator = make_estimator(shifts.estimator, tau=shifts.tau)
    sharing: Sharing = "monotone" if shifts.clusters.name == "monotone" else shifts.clusters
    folds = assign_folds(evidence, evidence.labels)
    scores = BeforeAfter(ClassScores(evidence.n_classes), ClassScores(evidence.n_classes))
    for fold in range(int(folds.max()) + 1):
        fitted = estimator.estimate(evidence.subset(folds != fold), sharing).shifts
        values = shifts.strength * fitted + np.log(shifts.target_prior)
        scores.merge(scores_with(evidence.subset(folds == fold), values))
    return scores


def scores_with(evidence: Evidence, shifts: Floats) -> BeforeAfter:
    """Score the raw model and the model with `shifts` on all of the evidence, which must have labels."""
    return evidence.accumulate(partial(_scores_with, shifts))


def _scores_with(shifts: Floats, blocks: Iterable[Block]) -> BeforeAfter:
    scores = BeforeAfter(ClassScores(len(shifts)), ClassScores(len(shifts)))
    for block in blocks:
        assert block.labels is not None
        logits = working_precision(block.logits)
        scores.before.update(logits, block.labels)
        scores.after.update(logits + like(shifts, logits)[None, :], block.labels)
    return scores
