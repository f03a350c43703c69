"""Whether a classifier is as right as it is sure: calibration, and the temperature that repairs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints

N_BINS = 15
_NUMBERS_PER_BLOCK = 2**22
_MAX_STEPS = 50
_EXTREME = 1e4
"""Temperatures are at most this, and at least its inverse: classes that are told apart perfectly ask for 0."""
_PRECISION = 1e-9


class Calibration(NamedTuple):
    """Of softmax outputs.

    Attributes
    ----------
    samples, right, confidence : arrays
        Samples by confidence, the largest probability, in `N_BINS` bins of equal width: how many, how many are right,
        and their summed confidence.
    nll : float
        Mean negative log-likelihood of the true class, in nats.
    brier : float
        Mean squared distance of the probabilities from the true class, summed over classes: from 0 to 2.
    """

    samples: Floats
    right: Floats
    confidence: Floats
    nll: float
    brier: float

    @property
    def ece(self) -> float:
        """Expected calibration error: mean distance of accuracy and confidence, weighted by the samples of a bin.

        References
        ----------
        Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks.
        """
        return float(np.abs(self.right - self.confidence).sum() / self.samples.sum())


def measure_calibration(logits: npt.NDArray[np.floating], labels: Ints) -> Calibration:
    """The calibration of the softmax of these logits.

    Examples
    --------
    >>> sure = np.log([[0.9, 0.1], [0.9, 0.1]])  # and right once
    >>> measured = measure_calibration(sure, np.array([0, 1]))
    >>> round(measured.ece, 3), round(measured.nll, 3), round(measured.brier, 3)
    (0.4, 1.204, 0.82)
    """
    bins = np.zeros((3, N_BINS))
    nll = brier = 0.0
    for block, truth in _blocks(logits, labels):
        log_probabilities = _log_softmax(block)
        own = log_probabilities[np.arange(len(truth)), truth]
        probabilities = np.exp(log_probabilities)
        confidence = probabilities.max(axis=1)
        place = np.minimum((confidence * N_BINS).astype(np.int64), N_BINS - 1)
        right = (block.argmax(axis=1) == truth).astype(np.float64)
        sums = (np.bincount(place, weights, N_BINS) for weights in (np.ones(len(truth)), right, confidence))
        bins += np.array(list(sums))
        nll -= own.sum()
        brier += np.sum((probabilities**2).sum(axis=1) - 2 * np.exp(own) + 1)
    return Calibration(bins[0], bins[1], bins[2], float(nll / len(labels)), float(brier / len(labels)))


def fit_temperature(blocks: Sequence[tuple[npt.NDArray[np.floating], Ints]]) -> float:
    """The number to divide logits by that makes their negative log-likelihood smallest.

    The likelihood is convex in the inverse temperature: Newton steps within a bracket that shrinks.

    Parameters
    ----------
    blocks : sequence of (logits, labels)

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks.
    """
    low, inverse, high = 1 / _EXTREME, 1.0, _EXTREME
    for _ in range(_MAX_STEPS):
        slope, curvature = np.sum([_derivatives(block, labels, inverse) for block, labels in blocks], axis=0)
        if slope == 0:
            break
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else np.inf
        after = step if low < step < high else float(np.sqrt(low * high))
        if abs(after - inverse) <= _PRECISION * inverse:
            break
        inverse = after
    return float(1 / inverse)


def _derivatives(logits: npt.NDArray[np.floating], labels: Ints, inverse: float) -> Floats:
    """First and second derivative of the summed negative log-likelihood with respect to the inverse temperature."""
    sums = np.zeros(2)
    for block, truth in _blocks(logits, labels):
        values = np.maximum(block - block.max(axis=1, keepdims=True), -1e100)  # its square is finite
        probabilities = np.exp(_log_softmax(inverse * values))
        mean = (probabilities * values).sum(axis=1)
        variance = (probabilities * values**2).sum(axis=1) - mean**2
        sums += (mean - values[np.arange(len(truth)), truth]).sum(), variance.sum()
    return sums


def _blocks(logits: npt.NDArray[np.floating], labels: Ints) -> Iterator[tuple[Floats, Ints]]:
    """In double precision, a few samples at a time."""
    size = max(1, _NUMBERS_PER_BLOCK // logits.shape[1])
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        yield np.asarray(logits[part], dtype=np.float64), labels[part]


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
