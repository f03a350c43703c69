"""Cross-fitted scores: every candidate judged on samples that it was not fitted on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.parts import Block
from energyalign.core._engine.thinning import rank_in_class
from energyalign.core.arrays import Bools, Floats, Ints, like, namespace, to_numpy, working_precision
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError
from energyalign.core.estimators import Estimator
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import Sharing

N_FOLDS = 5
_MAX_DISTANCE = 99.0  # a difference without any noise is this many standard errors


@dataclass(frozen=True)
class Score:
    """Accuracy under the target prior, or the reason why there is none.

    `behind` is the distance to the best accuracy in standard errors of that difference, sample by sample.
    """

    accuracy: float | None = None
    behind: float | None = None
    problem: str | None = None


def cross_fitted_scores(evidence: Evidence, options: list[tuple[Estimator, Sharing]], target: Floats) -> list[Score]:
    """Fit each option on all folds but one, score it on that one, and compare sample by sample."""
    if evidence.labels is None:
        return [Score()] * len(options)
    folds = assign_folds(evidence, evidence.labels)
    right = np.zeros((len(options), evidence.n_samples), dtype=bool)
    problems: dict[int, str] = {}
    for fold in range(int(folds.max()) + 1):
        others = evidence.subset(folds != fold)
        shifts = np.zeros((len(options), evidence.n_classes))
        for i, (estimator, sharing) in enumerate(options):
            try:
                shifts[i] = estimator.estimate(others, sharing).shifts
            except (BadValueError, CannotGoOn):
                raise  # nothing that the option is to blame for
            except EnergyAlignError as error:
                problems.setdefault(i, str(error))
        scored = folds == fold
        right[:, scored & (evidence.occurrences > 0)] = (
            evidence.subset(scored).accumulate(partial(_predicted_right, shifts + np.log(target))).marks
        )
    scored = folds >= 0
    standing = [i for i in range(len(options)) if i not in problems]
    if not scored.any() or not standing:
        return [Score(problem=problems.get(i)) for i in range(len(options))]
    comparison = _Comparison(evidence.labels[scored], evidence.occurrences[scored], target)
    accuracies = {i: comparison.mean(right[i, scored]) for i in standing}
    best = right[max(standing, key=lambda i: accuracies[i]), scored]
    return [
        Score(accuracies[i], comparison.distance(best, right[i, scored]))
        if i in accuracies
        else Score(problem=problems[i])
        for i in range(len(options))
    ]


def scores_every_class(evidence: Evidence) -> bool:
    """Whether each class in play is among the scored samples.

    Where one is not, a correction in its favour shows its cost and never its gain: the scores are not fair.
    """
    if evidence.labels is None:
        return False
    scored = assign_folds(evidence, evidence.labels) >= 0
    return bool(np.all(evidence.masked[np.setdiff1d(np.arange(evidence.n_classes), evidence.labels[scored])]))


def assign_folds(evidence: Evidence, labels: Ints) -> npt.NDArray[np.int32]:
    """The fold that scores each sample, or -1 for samples that serve to fit only.

    Groups of the evidence stay together; otherwise the samples of each class are dealt out in turn. A class
    whose samples are all in one fold cannot be both fitted and scored: it is fitted.
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
    folds = np.full(evidence.n_samples, -1, dtype=np.int32)  # there may be millions
    folds[present] = np.where(first[known] == last[known], -1, dealt)
    return folds


class _Right:
    """Which samples each of the options classifies correctly."""

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


class _Comparison:
    """Means over samples in which every class counts by the target prior."""

    def __init__(self, labels: Ints, repeats: Floats, target: Floats) -> None:
        self._labels, self._repeats = labels, repeats
        self._seen = np.bincount(labels, weights=repeats, minlength=len(target))
        self._target = np.where(self._seen > 0, target, 0.0)
        self._target /= self._target.sum()

    def mean(self, values: Bools | Ints) -> float:
        return float(self._target @ self._class_means(values.astype(np.float64)))

    def distance(self, best: Bools, other: Bools) -> float:
        """Difference of two means in its own standard errors.

        A rare class may show no disagreement in its two samples by mere luck. Its rate of disagreement is
        therefore drawn towards the mean rate of all classes, as if two more samples had shown that.
        """
        difference = best.astype(np.float64) - other
        total = float(self._target @ self._class_means(difference))
        if total <= 0:
            return 0.0
        rates = self._class_means(difference**2)
        shrunk = (self._seen * rates + 2.0 * float(self._target @ rates)) / (self._seen + 2.0)
        noise = float(np.sqrt(self._target**2 @ np.divide(shrunk, np.maximum(self._seen, 1.0))))
        return min(total / noise, _MAX_DISTANCE)

    def _class_means(self, values: Floats) -> Floats:
        sums = np.bincount(self._labels, weights=values * self._repeats, minlength=len(self._seen))
        return np.divide(sums, self._seen, out=np.zeros_like(sums), where=self._seen > 0)
