"""Tests and intervals for paired differences: over test samples and over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import Bools, Floats, Ints

N_RESAMPLES = 2000
RESAMPLING_SEED = 0
LEVEL = 0.95


class Gain(NamedTuple):
    """A difference, its standard error, and its 95 % interval."""

    difference: float
    error: float
    low: float
    high: float


def mcnemar(one: Bools, other: Bools) -> float:
    """Return the p-value of McNemar's exact test that two classifiers are right equally often.

    With b samples that only the first has right and c that only the second has right, it is
    ``min(1, 2 P(X <= min(b, c)))`` for ``X ~ Binomial(b + c, 1/2)``.

    References
    ----------
    McNemar (1947), Note on the sampling error of the difference between correlated proportions or percentages.
    """
    from scipy.special import bdtr

    b, c = np.count_nonzero(one & ~other), np.count_nonzero(other & ~one)
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0


def bootstrap(labels: Ints, gains: Floats) -> Gain:
    """Bootstrap a difference of balanced accuracies, resampling within each class.

    Parameters
    ----------
    labels : array
        Class of each sample.
    gains : array
        1 where only the second classifier is right, -1 where only the first is, 0 elsewhere; or means of these.
    """
    rng = np.random.default_rng(RESAMPLING_SEED)
    classes = np.unique(labels)
    difference, draws = 0.0, np.zeros(N_RESAMPLES)
    for k in classes:
        values, counts = np.unique(gains[labels == k], return_counts=True)
        n = int(counts.sum())
        difference += float(values @ counts) / n
        draws += rng.multinomial(n, counts / n, size=N_RESAMPLES) @ values / n
    draws /= len(classes)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Gain(difference / len(classes), float(draws.std(ddof=1)), float(low), float(high))


def paired_t(differences: Sequence[float]) -> Gain:
    """Return the paired t interval of the differences of at least two seeds."""
    from scipy.special import stdtrit

    n = len(differences)
    mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(n))
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
    return Gain(mean, error, mean - half, mean + half)
