"""Weighted sums of exponentials of logits over samples, per class."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from energyalign.core._engine.compiled import require_installed
from energyalign.core.arrays import Array, Floats, Ints, like, namespace, refuse_bad_value, to_numpy, working_precision

# Rows per float32 sum, few enough to keep all relevant precision; these sums are added in float64.
_SHORT_SUM = 128

# Accepted range of a sum, relative to the weights: no relevant term of it or of the sum of squares has underflowed, and
# its square is finite.
_MIN_SUM = 1e-9
_MAX_SUM = 1e100

# A piece and its intermediate results fit the processor's cache.
_PIECE_ROWS = 1024
_PIECE_NUMBERS = 1 << 18
_PIECE_NUMBERS_ELSEWHERE = 1 << 20  # other libraries use their own threads

Kernel: TypeAlias = Callable[[Array, Array | None, Floats, Floats], Floats]


class ExponentialSums(NamedTuple):
    """Sums of exponentials relative to a reference logit of each class.

    Attributes
    ----------
    reference : array of shape (n_classes,)
        Reference logit r of each class.
    sums : array of shape (3, n_classes)
        Sums over samples of w e^(f - r), v e^(f - r) and v e^2(f - r) with weights w and v.
    """

    reference: Floats
    sums: Floats


class SumOfExponentials:
    """Sums the exponentials of one piece of logits per call.

    Parameters
    ----------
    compiled : bool
        Whether to use compiled loops for NumPy arrays.
    """

    def __init__(self, *, compiled: bool) -> None:
        self._compiled = compiled
        self._skip_peak = True

    def rows(self, block: Array) -> int:
        """Return the number of rows in a piece."""
        if not isinstance(block, np.ndarray):
            return min(_PIECE_ROWS, max(1, _PIECE_NUMBERS_ELSEWHERE // int(block.shape[1])))
        return len(block) if self._compiled else min(_PIECE_ROWS, max(1, _PIECE_NUMBERS // block.shape[1]))

    def __call__(self, piece: Array, weights: Floats, squares: Floats, samples: Ints) -> ExponentialSums:
        """Sum a piece. `samples` holds the sample numbers of its rows, for error messages."""
        logits = working_precision(piece)
        kernel: Kernel = _compiled_sums if self._compiled and isinstance(piece, np.ndarray) else _array_sums
        # Most logits are small enough to skip subtracting the peak. Once this fails, do not try again: the next pieces
        # are likely to be similar.
        if self._skip_peak:
            with np.errstate(over="ignore", invalid="ignore"):
                sums = kernel(logits, None, weights, squares)
            least = _MIN_SUM * weights.max()  # 0 if no sample counts: a reference of 0 could hide samples far below it
            if least > 0 and np.all(sums[0] >= least) and np.all(sums <= _MAX_SUM):  # false for NaN
                return ExponentialSums(np.zeros(logits.shape[1]), sums)
            self._skip_peak = False
        logits, reference = _mask_and_find_peaks(logits, weights > 0, samples)
        xp = namespace(reference)
        finite = xp.where(reference == -xp.inf, xp.zeros_like(reference), reference)
        return ExponentialSums(to_numpy(reference).astype(np.float64), kernel(logits, finite, weights, squares))


def _mask_and_find_peaks(logits: Array, counted: Array, samples: Ints) -> tuple[Array, Array]:
    """Return the logits, with -inf for samples of weight 0, and the largest of each class."""
    xp = namespace(logits)
    largest = xp.max(logits, axis=0)
    if not np.all(to_numpy(largest) < np.inf):  # also false for NaN
        refuse_bad_value(logits, samples)
    if not counted.all():
        # A sample of weight 0 must not set the peak: all others could underflow beside it.
        logits = xp.where(like(counted, logits)[:, None] > 0, logits, xp.full_like(logits, -xp.inf))
        largest = xp.max(logits, axis=0)
    return logits, largest


def _array_sums(logits: Array, reference: Array | None, weights: Floats, squares: Floats) -> Floats:
    scaled = namespace(logits).exp(logits if reference is None else logits - reference)
    by_weight = like(weights, scaled)
    first = _weighted_sum(by_weight, scaled)
    if squares is weights:
        return np.stack([first, first, _weighted_sum(by_weight, scaled * scaled)])
    by_square = like(squares, scaled)
    return np.stack([first, _weighted_sum(by_square, scaled), _weighted_sum(by_square, scaled * scaled)])


def _weighted_sum(weights: Array, rows: Array) -> Floats:
    """Compute the weighted sum of the rows: float32 sums of a few rows each, added in float64."""
    xp = namespace(rows)
    n_rows, n_classes = rows.shape
    whole = n_rows - n_rows % _SHORT_SUM
    total = np.zeros(n_classes)
    if whole:
        parts = xp.reshape(rows[:whole, :], (-1, _SHORT_SUM, n_classes))
        sums = xp.reshape(weights[:whole], (-1, 1, _SHORT_SUM)) @ parts
        total += to_numpy(sums)[:, 0, :].sum(axis=0, dtype=np.float64)
    if whole < n_rows:
        total += to_numpy(weights[whole:] @ rows[whole:, :])
    return total


def _compiled_sums(logits: Array, reference: Array | None, weights: Floats, squares: Floats) -> Floats:
    require_installed()
    from energyalign.core._engine.compiled.loops import add_exponential_sums, add_plain_sums

    sums = np.zeros((3, logits.shape[1]))
    if reference is None and squares is weights and np.all(weights == 1.0):
        add_plain_sums(read_only(logits), sums)
        sums[1] = sums[0]
        return sums
    origin = np.zeros(logits.shape[1], logits.dtype) if reference is None else reference
    add_exponential_sums(read_only(logits), origin, like(weights, logits), like(squares, logits), sums)
    return sums


def read_only(logits: Array) -> Array:
    """Return a contiguous read-only view, the only kind of array that loops are compiled for."""
    view = np.ascontiguousarray(logits).view()
    view.flags.writeable = False
    return view
