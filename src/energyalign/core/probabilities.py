"""Detect scores that are probabilities, and take their logarithms."""

from __future__ import annotations

import math

import numpy as np

from energyalign.core.arrays import Array, namespace, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import class_axis, n_columns, to_rows

# Smaller probabilities are clipped to this. A tree gives exactly 0 for a class that is not in a leaf, and
# rounding gives 0 too: a zero means few samples or digits, not certainty.
MIN_PROBABILITY = 1e-6
MAX_CHECKED_ROWS = 64
# A few rows in a thousand of random logits are positive and sum to about one. Fewer than four rows must sum to one
# within the tolerance of single precision.
_MIN_ROWS = 4
_TOLERANCE = 2e-3  # of a sum in half precision
_STRICT_TOLERANCE = 1e-5
_MIN_SIGMOIDS = 16  # this many logits are not all between 0 and 1 by chance
TAKEN_AS_LOGITS = (
    "these scores are probabilities (every row sums to one, or to 100 %): their logarithms were taken as logits. Give "
    "logits, or take the logarithm yourself."
)


def are_probabilities(scores: Array) -> bool:
    """Return whether the first rows are probabilities: >= 0 with sum 1 up to rounding to 2 or more digits.

    Percentages, with sum 100, count too.
    """
    rows = _first_rows(scores)
    if rows.shape[0] == 0 or rows.shape[1] < 2:
        return False
    xp = namespace(rows)
    if not bool(xp.all((rows >= 0.0) & (rows <= 150.0))):  # false for NaN, and for most logits
        return False
    rows = rows / _whole(rows, axis=1)
    if not bool(xp.all(rows <= 1.0 + _TOLERANCE)):
        return False
    error = float(np.max(np.abs(to_numpy(xp.sum(rows, axis=1)) - 1.0)))
    if rows.shape[0] < _MIN_ROWS:
        return error <= _STRICT_TOLERANCE
    return error <= _TOLERANCE or any(error <= _rounding_error(rows, digits) for digits in (2, 3, 4))


def are_log_probabilities(rows: Array) -> bool:
    """Return whether the exponentials of each row sum to one."""
    xp = namespace(rows)
    with np.errstate(over="ignore"):  # large logits
        return bool(np.allclose(to_numpy(xp.sum(xp.exp(rows), axis=1)), 1.0, atol=1e-3))


def are_sigmoids(rows: Array) -> bool:
    """Return whether the rows are (0, p) with all p in 0..1, as if a sigmoid was applied to one logit."""
    if rows.shape[1] != 2 or rows.shape[0] < _MIN_SIGMOIDS:
        return False
    xp = namespace(rows)
    within = xp.all(rows[:, 0] == 0) & xp.all((rows[:, 1] >= 0) & (rows[:, 1] <= 1))
    return bool(within & xp.any(rows[:, 1] > 0))


def log_probabilities(probabilities: Array) -> Array:
    """Return finite logarithms of probabilities, after clipping and normalising them."""
    ready = working_precision(probabilities)
    xp, axis = namespace(ready), class_axis(ready.ndim)
    smallest = MIN_PROBABILITY * _whole(ready, axis)
    clipped = xp.where(ready > smallest, ready, smallest)
    return xp.log(clipped / xp.sum(clipped, axis=axis, keepdims=True))


def are_logarithms(scores: Array) -> bool:
    """Return True for logarithms of probabilities and False for probabilities; raise for other scores."""
    xp, ready = namespace(scores), working_precision(scores)
    if bool(xp.all(ready >= 0.0)) and bool(xp.all(ready <= (1.0 + _TOLERANCE) * _whole(ready, class_axis(ready.ndim)))):
        return False
    if bool(xp.all(ready <= 0.0)):
        return True
    raise EnergyAlignError(
        "these shifts were fitted on probabilities: expected probabilities (0 to 1, or 0 to 100 %) or their logarithms "
        "(<= 0), got other scores. Give either, or fit the shifts on logits."
    )


def _whole(scores: Array, axis: int) -> Array:
    """Return the sum that each row should have: 100 for percentages, otherwise 1."""
    xp = namespace(scores)
    total = xp.sum(scores, axis=axis, keepdims=True)
    per_cent = xp.abs(total - 100.0) <= 50.0  # rounding may move the sum this far
    return xp.where(per_cent, xp.full_like(total, 100.0), xp.ones_like(total))


def _first_rows(scores: Array) -> Array:
    """Return the logits of a few positions of any head, as rows."""
    n_positions = max(1, math.prod(scores.shape[1:]) // n_columns(scores.shape))
    n_samples = min(scores.shape[0], -(-MAX_CHECKED_ROWS // n_positions))
    rows = to_rows(scores[:n_samples, ...])
    return working_precision(rows[: min(rows.shape[0], MAX_CHECKED_ROWS), :], double=True)


def _rounding_error(rows: Array, digits: int) -> float:
    """Return the largest error of a row's sum by rounding to `digits`; 0 if the rows have more digits."""
    scaled, xp = rows * 10.0**digits, namespace(rows)
    if float(xp.max(xp.abs(scaled - xp.round(scaled)))) > 1e-2:
        return 0.0
    largest: float = 0.5 * rows.shape[1] / 10**digits + 1e-6
    return min(largest, 0.5)
