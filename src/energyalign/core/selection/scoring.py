"""Cross-fitting: fit shifts on some folds and score them on the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.parts import Block
from energyalign.core._engine.thinning import rank_in_class
from energyalign.core.arrays import Bools, Floats, Ints, like, namespace, to_numpy, working_precision
from energyalign.core.evidence import Evidence

N_FOLDS = 5

Fit = Callable[[Evidence], Floats]


def cross_fitted(evidence: Evidence, fit: Fit, target: Floats) -> CrossFitted:
    """Call `fit` on all folds but one, in turn; it returns shifts of shape (n_options, n_classes)."""
    assert evidence.labels is not None
    folds = assign_folds(evidence, evidence.labels)
    shifts = [fit(evidence.subset(folds != fold)) for fold in range(int(folds.max()) + 1)]
    return CrossFitted(evidence, folds, shifts, target)


class CrossFitted:
    """Shifts for each fold, fitted on the other folds; scored under the target prior."""

    def __init__(self, evidence: Evidence, folds: npt.NDArray[np.int32], shifts: list[Floats], target: Floats) -> None:
        assert evidence.labels is not None
        self._evidence, self._folds, self._shifts = evidence, folds, shifts
        self._log_target = np.log(target)
        self._scored = (folds >= 0) & (evidence.occurrences > 0)
        self._labels, self._repeats = evidence.labels[self._scored], evidence.occurrences[self._scored]
        self._seen = np.bincount(self._labels, weights=self._repeats, minlength=len(target))
        self._target = np.where(self._seen > 0, target, 0.0)
        self._target /= max(self._target.sum(), 1e-300)

    def right_by_option(self) -> Bools:
        """Return which scored samples each option predicts right: (n_options, n_samples)."""
        right = np.zeros((len(self._shifts[0]), self._evidence.n_samples), dtype=bool)
        for fold, own in enumerate(self._shifts):
            chosen = self._folds == fold
            part = self._evidence.subset(chosen).accumulate(partial(_predicted_right, own + self._log_target))
            right[:, chosen & (self._evidence.occurrences > 0)] = part.marks
        return right[:, self._scored]

    def score(self, right: Bools) -> float:
        """Return the accuracy under the target prior."""
        sums = np.bincount(self._labels, weights=right * self._repeats, minlength=len(self._seen))
        recalls = np.divide(sums, self._seen, out=np.zeros_like(sums), where=self._seen > 0)
        return float(self._target @ recalls)


def compare_on_itself(evidence: Evidence, shifts: Floats) -> tuple[float, float, float]:
    """Return the balanced accuracies on all samples, raw and with `shifts`, and the error of their difference."""
    assert evidence.labels is not None
    present = evidence.occurrences > 0
    repeats, labels = evidence.occurrences[present], evidence.labels[present]
    seen = np.bincount(labels, weights=repeats, minlength=evidence.n_classes)
    weights = repeats / seen[labels] / np.count_nonzero(seen)
    right = evidence.accumulate(partial(_predicted_right, np.stack([0 * shifts, shifts]))).marks
    raw, aligned = right @ weights
    return float(raw), float(aligned), float(np.sqrt(np.sum(weights[right[0] != right[1]] ** 2)))


def scored_classes(evidence: Evidence) -> Bools:
    """Return which classes have scored samples."""
    result = np.zeros(evidence.n_classes, dtype=bool)
    if evidence.labels is not None:
        result[evidence.labels[assign_folds(evidence, evidence.labels) >= 0]] = True
    return result


def scores_every_class(evidence: Evidence) -> bool:
    """Return whether each class that is not masked has scored samples.

    Otherwise scores are unfair: a shift in favour of a class without samples has a cost and no gain.
    """
    return evidence.labels is not None and bool(np.all(evidence.masked | scored_classes(evidence)))


def assign_folds(evidence: Evidence, labels: Ints) -> npt.NDArray[np.int32]:
    """Return the fold that scores each sample, or -1 for samples that are only fitted on.

    Groups of the evidence stay together; without groups, the samples of each class are assigned in turn. A class
    whose samples are all in one fold is only fitted on.
    """
    present = evidence.occurrences > 0
    known = labels[present]
    if evidence.groups is None:
        dealt = rank_in_class(known, evidence.n_classes)[0] % N_FOLDS
    else:
        groups = np.unique(evidence.groups, return_inverse=True)[1]
        dealt = groups[present] % max(N_FOLDS, min(10, int(groups.max()) + 1))
    first, last = np.full(evidence.n_classes, np.iinfo(np.int64).max), np.full(evidence.n_classes, -1)
    np.minimum.at(first, known, dealt)
    np.maximum.at(last, known, dealt)
    folds = np.full(evidence.n_samples, -1, dtype=np.int32)  # int32: there may be millions
    folds[present] = np.where(first[known] == last[known], -1, dealt)
    return folds


class _Right:
    """Which samples each option classifies correctly; mergeable."""

    def __init__(self, n_options: int) -> None:
        self._parts: list[Bools] = [np.zeros((n_options, 0), dtype=bool)]

    @property
    def marks(self) -> Bools:
        return np.concatenate(self._parts, axis=1)

    def add(self, right: Bools) -> None:
        self._parts.append(right)

    def merge(self, other: Self) -> None:
        self._parts += other._parts


def _predicted_right(shifts: Floats, blocks: Iterable[Block]) -> _Right:
    right = _Right(len(shifts))
    for block in blocks:
        xp = namespace(block.logits)
        logits = working_precision(block.logits)
        predicted = [to_numpy(xp.argmax(logits + like(shift, logits)[None, :], axis=1)) for shift in shifts]
        right.add(np.stack(predicted) == block.labels)
    return right
