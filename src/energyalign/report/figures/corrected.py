"""The stored test logits of a run, as a row corrects them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from energyalign.core.metrics import ClassScores
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import Outputs, StoredRun


def corrected_outputs(run: StoredRun, row: Row, strength: float = 1.0) -> Outputs:
    """Logits plus so much of the shifts, in the precision of the rows; a row without shifts leaves them as they are."""
    outputs = run.outputs(row.step)
    return outputs._replace(logits=_shifted(outputs.logits, row, strength))


def scores_by_strength(run: StoredRun, row: Row, strengths: Sequence[float]) -> list[ClassScores]:
    """How good the predictions are at each strength."""
    logits, labels = run.outputs(row.step)
    n_classes = logits.shape[1]
    scores = []
    for strength in strengths:
        right = labels[_shifted(logits, row, strength).argmax(axis=1) == labels]
        counted = ClassScores(n_classes)
        counted.right += np.bincount(right, minlength=n_classes)
        counted.total += np.bincount(labels, minlength=n_classes)
        scores.append(counted)
    return scores


def _shifted(logits: NDArray[np.float32], row: Row, strength: float) -> NDArray[np.float32]:
    if row.shifts is None or strength == 0:
        return logits
    return logits + (strength * np.array(row.shifts)).astype(logits.dtype)
