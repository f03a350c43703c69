"""Accuracy per class: streaming, mergeable counters."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    as_logits,
    namespace,
    refuse_bad_value,
    take_rows,
    to_numpy,
)
from energyalign.core.checks import check_counts, check_labels
from energyalign.core.errors import EnergyAlignError

MANY_ABOVE = 100
FEW_BELOW = 20


class ClassScores:
    """Counts of correct predictions per class, top-1 and top-k, over blocks of logits.

    Parameters
    ----------
    n_classes : int
    top_k : int, default=5
        Clipped to the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> scores = ClassScores(3).update(np.array([[2.0, 1, 0], [2.0, 1, 0]]), np.array([0, 1]))
    >>> scores.accuracy, scores.top_k_accuracy
    (0.5, 1.0)
    """

    def __init__(self, n_classes: int, *, top_k: int = 5) -> None:
        if top_k < 1:
            raise EnergyAlignError(f"top_k must be >= 1, got {top_k}.")
        self.n_classes = n_classes
        self.top_k = min(top_k, n_classes)
        self.right: Ints = np.zeros(n_classes, dtype=np.int64)
        self.right_top_k: Ints = np.zeros(n_classes, dtype=np.int64)
        self.total: Ints = np.zeros(n_classes, dtype=np.int64)

    def update(self, logits: Array, labels: Array) -> Self:
        """Add a block. Among equal logits, the class with the smaller number ranks first, as in argmax."""
        block = as_logits(logits, self.n_classes)
        truth = check_labels(labels, block.shape[0], self.n_classes)
        ranks = _rank_labels(block, truth)
        self.right += np.bincount(truth[ranks == 0], minlength=self.n_classes)
        self.right_top_k += np.bincount(truth[ranks < self.top_k], minlength=self.n_classes)
        self.total += np.bincount(truth, minlength=self.n_classes)
        return self

    def merge(self, other: ClassScores) -> Self:
        """Add the samples of `other`."""
        if (other.n_classes, other.top_k) != (self.n_classes, self.top_k):
            raise EnergyAlignError("cannot merge scores with different n_classes or top_k.")
        self.right += other.right
        self.right_top_k += other.right_top_k
        self.total += other.total
        return self

    @property
    def accuracy(self) -> float:
        """Share of samples that are predicted correctly."""
        return _ratio(self.right.sum(), self.total.sum())

    @property
    def top_k_accuracy(self) -> float:
        """Share of samples whose class is among the k largest logits."""
        return _ratio(self.right_top_k.sum(), self.total.sum())

    @property
    def per_class(self) -> Floats:
        """Accuracy of each class; NaN for a class without samples."""
        return _shares(self.right, self.total)

    @property
    def balanced_accuracy(self) -> float:
        """Mean accuracy of the classes that have samples."""
        return self.mean_over(slice(None))

    @property
    def balanced_top_k_accuracy(self) -> float:
        """Mean top-k accuracy of the classes that have samples."""
        return _mean_known(_shares(self.right_top_k, self.total))

    def groups(self, counts: npt.ArrayLike) -> dict[str, float]:
        """Return the mean accuracy of classes with many (> 100), medium (20..100) and few (< 20) training samples.

        NaN for a group without classes.
        """
        return {name: self.mean_over(members) for name, members in shot_groups(counts, self.n_classes).items()}

    def mean_over(self, classes: Bools | slice) -> float:
        """Return the mean accuracy of these classes, without classes that have no samples; NaN if none are left."""
        return _mean_known(self.per_class[classes])


def balanced_standard_error(per_class: npt.ArrayLike, totals: npt.ArrayLike) -> float:
    """Return the standard error of a balanced accuracy: ``sqrt(sum_k p_k (1 - p_k) / n_k) / C``.

    Parameters
    ----------
    per_class, totals : arrays
        Accuracy and number of samples of each class. Classes without samples are left out.

    Examples
    --------
    >>> round(balanced_standard_error([0.5, 0.8], [100, 100]), 4)
    0.032
    """
    share, n = np.asarray(per_class, dtype=np.float64), np.asarray(totals)
    seen = n > 0
    return float(np.sqrt(np.sum(share[seen] * (1 - share[seen]) / n[seen])) / np.count_nonzero(seen))


def shot_groups(counts: npt.ArrayLike, n_classes: int) -> dict[str, Bools]:
    """Return masks of the classes with many, medium and few training samples."""
    values = check_counts(counts, n_classes)
    many, few = values > MANY_ABOVE, values < FEW_BELOW
    return {"many": many, "medium": ~(many | few), "few": few}


def confusion_matrix(labels: Array, predictions: Array, n_classes: int) -> Ints:
    """Count pairs of true class (rows) and predicted class (columns)."""
    n_samples = len(labels)
    truth, predicted = (check_labels(values, n_samples, n_classes) for values in (labels, predictions))
    flat = np.bincount(truth * n_classes + predicted, minlength=n_classes**2)
    return flat.reshape(n_classes, n_classes)


def _rank_labels(block: Array, truth: Ints) -> Ints:
    """Count the classes that rank before the true one."""
    xp = namespace(block)
    if bool(xp.any(xp.isnan(block))):
        refuse_bad_value(block)
    # Most predictions are correct, and argmax is several times faster than comparing with every class.
    missed = np.flatnonzero(to_numpy(xp.argmax(block, axis=1)) != truth)
    ranks = np.zeros(len(truth), dtype=np.int64)
    if len(missed):
        ranks[missed] = _count_ahead(take_rows(block, missed), truth[missed])
    return ranks


def _count_ahead(block: Array, truth: Ints) -> Ints:
    xp = namespace(block)
    from array_api_compat import device

    n_rows, n_classes = block.shape
    place = device(block)
    own = xp.take(xp.reshape(block, (-1,)), xp.asarray(np.arange(n_rows) * n_classes + truth, device=place), axis=0)
    ahead = block > own[:, None]
    level = block == own[:, None]
    if int(xp.count_nonzero(level)) > n_rows:  # ties
        columns = xp.arange(n_classes, device=place)[None, :]
        ahead = ahead | (level & (columns < xp.asarray(truth, device=place)[:, None]))
    return to_numpy(xp.sum(xp.astype(ahead, xp.uint8), axis=1, dtype=xp.int64))


def _shares(right: Ints, total: Ints) -> Floats:
    return np.asarray(right / np.where(total > 0, total, np.nan))


def _mean_known(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _ratio(part: np.int64, whole: np.int64) -> float:
    return float(part / whole) if whole else float("nan")
