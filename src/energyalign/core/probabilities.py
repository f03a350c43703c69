"""Scores that are probabilities: how they are recognised, and what is made of them."""

from __future__ import annotations

import math

import numpy as np

from energyalign.core.arrays import Array, namespace, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import class_axis, n_columns, to_rows

# A forest or a tree says exactly 0 for a class it did not see in a leaf, and so does rounding. That is less a certainty
# than a lack of samples or digits, so that probabilities are not taken to be smaller than this.
MIN_PROBABILITY = 1e-6
MAX_ROWS_TO_LOOK_AT = 64
# A row of logits may be positive and sum to about one by chance, a few in a thousand. Four such rows are no chance;
# fewer must sum to one as closely as in single precision.
_MIN_ROWS = 4
_SLACK = 2e-3  # of a sum in half precision
_LITTLE_SLACK = 1e-5
TAKEN_AS_LOGITS = (
    "these scores are probabilities (every row sums to one, or to 100 %): their logarithms were taken as logits. Give "
    "logits, or the logarithm yourself."
)


def are_probabilities(scores: Array) -> bool:
    """Tell whether the first rows are distributions: none below 0, and of sum 1 up to rounding to 2 digits or more.

    Percentages, of sum 100, are such too.
    """
    rows = _first_rows(scores)
    if rows.shape[0] == 0 or rows.shape[1] < 2:
        return False
    xp = namespace(rows)
    if not bool(xp.all((rows >= 0.0) & (rows <= 150.0))):  # false for NaN too, and nearly always for logits
        return False
    rows = rows / _whole(rows, axis=1)
    if not bool(xp.all(rows <= 1.0 + _SLACK)):
        return False
    off = float(np.max(np.abs(to_numpy(xp.sum(rows, axis=1)) - 1.0)))
    if rows.shape[0] < _MIN_ROWS:
        return off <= _LITTLE_SLACK
    return off <= _SLACK or any(off <= _rounded_by(rows, digits) for digits in (2, 3, 4))


def log_probabilities(probabilities: Array) -> Array:
    """Take logarithms that are finite, of probabilities that are made to sum to one."""
    ready = working_precision(probabilities)
    xp, axis = namespace(ready), class_axis(ready.ndim)
    smallest = MIN_PROBABILITY * _whole(ready, axis)
    clipped = xp.where(ready > smallest, ready, smallest)
    return xp.log(clipped / xp.sum(clipped, axis=axis, keepdims=True))


def are_logarithms(scores: Array) -> bool:
    """Whether what is to be corrected by shifts of probabilities is their logarithms; other scores are refused."""
    xp, ready = namespace(scores), working_precision(scores)
    if bool(xp.all(ready >= 0.0)) and bool(xp.all(ready <= (1.0 + _SLACK) * _whole(ready, class_axis(ready.ndim)))):
        return False
    if bool(xp.all(ready <= 0.0)):
        return True
    raise EnergyAlignError(
        "these shifts were fitted on probabilities, and the scores to correct are neither probabilities (0 to 1, or "
        "0 to 100 %) nor their logarithms (0 at most): give either, or fit the shifts on logits."
    )


def _whole(scores: Array, axis: int) -> Array:
    """What each row would sum to: 100 if it is of percentages, and 1 for all other scores."""
    xp = namespace(scores)
    total = xp.sum(scores, axis=axis, keepdims=True)
    per_cent = xp.abs(total - 100.0) <= 50.0  # as far as rounding may take it
    return xp.where(per_cent, xp.full_like(total, 100.0), xp.ones_like(total))


def _first_rows(scores: Array) -> Array:
    """A few positions of any head, as rows."""
    n_positions = max(1, math.prod(scores.shape[1:]) // n_columns(scores.shape))
    n_samples = min(scores.shape[0], -(-MAX_ROWS_TO_LOOK_AT // n_positions))
    rows = to_rows(scores[:n_samples, ...])
    return working_precision(rows[: min(rows.shape[0], MAX_ROWS_TO_LOOK_AT), :], double=True)


def _rounded_by(rows: Array, digits: int) -> float:
    """How far rounding to so many digits may take the sum of a row from one; 0 if the rows were not rounded so."""
    scaled, xp = rows * 10.0**digits, namespace(rows)
    if float(xp.max(xp.abs(scaled - xp.round(scaled)))) > 1e-2:
        return 0.0
    largest: float = 0.5 * rows.shape[1] / 10**digits + 1e-6
    return min(largest, 0.5)
