"""Scores that are probabilities: how they are recognised, and what is made of them."""

from __future__ import annotations

import numpy as np

from energyalign.core.arrays import Array, namespace, to_numpy, working_precision

# A forest or a tree says exactly 0 for a class it did not see in a leaf, and so does rounding. That is less a certainty
# than a lack of samples or digits, so that probabilities are not taken to be smaller than this.
MIN_PROBABILITY = 1e-6
MAX_ROWS_TO_LOOK_AT = 64
# One row of logits may be positive and sum to one by chance, a few in a thousand. Four such rows are no chance.
MIN_ROWS = 4
_SLACK = 2e-3  # of a sum in half precision
TAKEN_AS_LOGITS = (
    "these scores are probabilities (every row sums to one): their logarithms were taken as logits. Give logits, or "
    "the logarithm yourself."
)


def are_probabilities(scores: Array, *, min_rows: int = MIN_ROWS) -> bool:
    """Tell whether the first rows are distributions: none below 0, and of sum 1 up to rounding to 2 digits or more."""
    if scores.ndim != 2 or scores.shape[0] < min_rows:
        return False
    rows = working_precision(scores[: min(scores.shape[0], MAX_ROWS_TO_LOOK_AT), :], double=True)
    xp = namespace(rows)
    if not bool(xp.all((rows >= 0.0) & (rows <= 1.0 + _SLACK))):  # false for NaN too, and nearly always for logits
        return False
    off = float(np.max(np.abs(to_numpy(xp.sum(rows, axis=1)) - 1.0)))
    return off <= _SLACK or any(off <= _rounded_by(rows, digits) for digits in (2, 3, 4))


def log_probabilities(probabilities: Array) -> Array:
    """Take logarithms that are finite, of rows that are made to sum to one."""
    ready = working_precision(probabilities)
    xp = namespace(ready)
    clipped = xp.where(ready > MIN_PROBABILITY, ready, xp.full_like(ready, MIN_PROBABILITY))
    return xp.log(clipped / xp.sum(clipped, axis=-1, keepdims=True))


def _rounded_by(rows: Array, digits: int) -> float:
    """How far rounding to so many digits may take the sum of a row from one; 0 if the rows were not rounded so."""
    scaled, xp = rows * 10.0**digits, namespace(rows)
    if float(xp.max(xp.abs(scaled - xp.round(scaled)))) > 1e-2:
        return 0.0
    largest: float = 0.5 * rows.shape[1] / 10**digits + 1e-6
    return min(largest, 0.5)
