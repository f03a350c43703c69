"""What a correction does to accuracy, measured on samples that it was not fitted on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import like, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimate import estimate
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.metrics import ClassScores
from energyalign.core.scoring import assign_folds
from energyalign.core.sharing import Sharing
from energyalign.core.shifts import Shifts


class BeforeAfter(NamedTuple):
    """Scores of the raw and of the corrected model on the same samples."""

    before: ClassScores
    after: ClassScores


def before_and_after(evidence: Evidence, shifts: Shifts) -> BeforeAfter:
    """Score the raw model, and the model as corrected by the same estimator fitted without the sample in question.

    The samples are dealt into folds; each fold is corrected by shifts from the others, so that a correction cannot
    gain by fitting the very samples it is judged on. A class with a single sample is not scored.
    """
    if evidence.labels is None:
        raise EnergyAlignError("accuracy needs labels: give batches with labels.")
    estimator = make_estimator(shifts.estimator, tau=shifts.tau)
    sharing: Sharing = "monotone" if shifts.clusters.name == "monotone" else shifts.clusters
    folds = assign_folds(evidence, evidence.labels)
    scores = BeforeAfter(ClassScores(evidence.n_classes), ClassScores(evidence.n_classes))
    for fold in range(int(folds.max()) + 1):
        values = estimate(evidence.subset(folds != fold), estimator, sharing).shifts + np.log(shifts.target_prior)
        for block in evidence.subset(folds == fold).blocks():
            assert block.labels is not None
            logits = working_precision(block.logits)
            scores.before.update(logits, block.labels)
            scores.after.update(logits + like(values, logits)[None, :], block.labels)
    return scores
