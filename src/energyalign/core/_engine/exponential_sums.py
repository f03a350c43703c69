"""Weighted sums of exponentials of logits over some samples, per class."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from energyalign.core._engine.compiled import require_installed
from energyalign.core.arrays import Array, Floats, like, namespace, refuse_bad_value, to_numpy, working_precision

# Within a piece, sums of so few rows that float32 loses nothing that matters are added up in float64.
_SHORT_SUM = 128

# A sum of at least this much for a weight of 1 has lost nothing that matters to the smallest number of float32, nor has
# that of squares. One of at most this much can be squared.
_MIN_SUM = 1e-9
_MAX_SUM = 1e100
_MAX_FAILURES = 2

# Rows are reduced in pieces that fit the processor's cache with what is computed of them.
_PIECE_ROWS = 1024
_PIECE_NUMBERS = 1 << 18
_PIECE_NUMBERS_ELSEWHERE = 1 << 20  # other libraries have threads of their own, to be kept busy

Kernel: TypeAlias = Callable[[Array, Array | None, Floats, Floats], Floats]


class ExponentialSums(NamedTuple):
    """Relative to a reference of each class.

    Attributes
    ----------
    reference, first, cross, second : array of shape (n_classes,)
        A logit r, and Σ w e^(f - r), Σ v e^(f - r), Σ v e^2(f - r) over the samples, with two weights for each.
    """

    reference: Floats
    first: Floats
    cross: Floats
    second: Floats


class SumOfExponentials:
    """Reduces pieces of logits.

    Parameters
    ----------
    compiled : bool
        Those of NumPy by machine code; otherwise by operations of the array's own library.
    reference : array of shape (n_classes,)
        A logit of each class to begin with, or -inf: the largest of earlier samples, or 0.
    """

    def __init__(self, *, compiled: bool, reference: Floats) -> None:
        self._compiled = compiled
        self._reference = np.where(np.isneginf(reference), 0.0, reference)
        self._failures = 0  # in a row

    def rows(self, block: Array) -> int:
        """Return the number of rows in a piece."""
        if not isinstance(block, np.ndarray):
            return min(_PIECE_ROWS, max(1, _PIECE_NUMBERS_ELSEWHERE // int(block.shape[1])))
        return len(block) if self._compiled else min(_PIECE_ROWS, max(1, _PIECE_NUMBERS // block.shape[1]))

    def __call__(self, piece: Array, weights: Floats, squares: Floats, *, first_row: int) -> ExponentialSums:
        """Sum a piece; errors about bad values count rows from `first_row`."""
        logits = working_precision(piece)
        kernel: Kernel = _compiled_sums if self._compiled and isinstance(piece, np.ndarray) else _array_sums
        # The largest logits need not be looked for where those of earlier samples, or 0, serve as well. Where that has
        # failed twice in a row it is not tried again: a class is -inf, and the next pieces will be alike.
        if self._failures < _MAX_FAILURES:
            reference = like(self._reference, logits) if self._reference.any() else None
            with np.errstate(over="ignore", invalid="ignore"):
                sums = kernel(logits, reference, weights, squares)
            if np.all(sums[0] >= _MIN_SUM * weights.max()) and np.all(sums <= _MAX_SUM):  # false for NaN
                self._failures = 0
                return ExponentialSums(self._reference if reference is None else _double(reference), *sums)
            self._failures += 1
        logits, peaks = _below_peaks(logits, weights > 0, first_row)
        xp = namespace(peaks)
        finite = xp.where(peaks == -xp.inf, xp.zeros_like(peaks), peaks)
        self._reference = _double(finite)
        sums = kernel(logits, finite, weights, squares)
        sums[:, np.isneginf(_double(peaks))] = 0.0
        return ExponentialSums(_double(peaks), *sums)


def _double(values: Array) -> Floats:
    return to_numpy(values).astype(np.float64)


def _below_peaks(logits: Array, counted: Array, first_row: int) -> tuple[Array, Array]:
    """The logits, -inf where samples do not count, and the largest of each class."""
    xp = namespace(logits)
    largest = xp.max(logits, axis=0)
    if not np.all(to_numpy(largest) < np.inf):  # also false for NaN
        refuse_bad_value(logits, range(first_row, first_row + logits.shape[0]))
    if not counted.all():
        # A sample that does not count must not set the peak: all that do could vanish beside it.
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
    """Weighted sum of the rows, in float64 over float32 sums of a few rows each."""
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
    origin = np.zeros(logits.shape[1], logits.dtype) if reference is None else reference
    if squares is weights and np.all(weights == 1.0):
        add_plain_sums(read_only(logits), origin, sums)
        sums[1] = sums[0]
        return sums
    add_exponential_sums(read_only(logits), origin, like(weights, logits), like(squares, logits), sums)
    return sums


def read_only(logits: Array) -> Array:
    """Return a contiguous read-only view: the one form of array that loops are compiled for."""
    view = np.ascontiguousarray(logits).view()
    view.flags.writeable = False
    return view
