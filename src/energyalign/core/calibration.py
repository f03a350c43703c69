"""Calibration of a classifier, and temperature scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints

N_BINS = 15
_NUMBERS_PER_BLOCK = 2**22
_MAX_STEPS = 50
# Temperatures are limited to 1 / _MAX_TEMPERATURE .. _MAX_TEMPERATURE: for separable classes the optimum is 0.
_MAX_TEMPERATURE = 1e4
_PRECISION = 1e-9


class Calibration(NamedTuple):
    """Calibration of softmax outputs.

    Attributes
    ----------
    samples, right, confidence : arrays of shape (N_BINS,)
        Number of samples, number of correct predictions, and sum of confidences (largest probabilities) per bin. The
        bins divide the confidence into equal intervals.
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
        """Expected calibration error: mean distance between accuracy and confidence of a bin, weighted by its samples.

        References
        ----------
        Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks.
        """
        return float(np.abs(self.right - self.confidence).sum() / self.samples.sum())


def measure_calibration(logits: npt.NDArray[np.floating], labels: Ints) -> Calibration:
    """Measure the calibration of the softmax of `logits`.

    Examples
    --------
    >>> sure = np.log([[0.9, 0.1], [0.9, 0.1]])  # and correct once
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
    """Return the temperature that minimises the negative log-likelihood of the logits divided by it.

    The likelihood is convex in the inverse temperature; minimise it by Newton steps within a shrinking bracket.

    Parameters
    ----------
    blocks : sequence of (logits, labels)

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks.
    """
    low, inverse, high = 1 / _MAX_TEMPERATURE, 1.0, _MAX_TEMPERATURE
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
    """Return the first two derivatives of the negative log-likelihood with respect to the inverse temperature."""
    sums = np.zeros(2)
    for block, truth in _blocks(logits, labels):
        values = np.maximum(block - block.max(axis=1, keepdims=True), -1e100)  # so that its square is finite
        probabilities = np.exp(_log_softmax(inverse * values))
        mean = (probabilities * values).sum(axis=1)
        variance = (probabilities * values**2).sum(axis=1) - mean**2
        sums += (mean - values[np.arange(len(truth)), truth]).sum(), variance.sum()
    return sums


def _blocks(logits: npt.NDArray[np.floating], labels: Ints) -> Iterator[tuple[Floats, Ints]]:
    """Yield blocks of samples in double precision."""
    size = max(1, _NUMBERS_PER_BLOCK // logits.shape[1])
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        yield np.asarray(logits[part], dtype=np.float64), labels[part]


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
