"""Compiled inner loops, all in one file: Numba's cache checks only the file of a loop for changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload

from energyalign.core._engine.forks import hold_while_forking

Function = TypeVar("Function", bound=Callable[..., object])

# Allow fused multiply-add only: other fast-math flags would break the rounding trick of `exponential`.
_FASTMATH = {"contract", "nsz"}

hold_while_forking(global_compiler_lock)


def compiled(function: Function) -> Function:
    """Compile a function that releases the GIL, and cache it on disk if possible."""
    return _compile(function, _FASTMATH)


def compiled_sum(function: Function) -> Function:
    """Compile a function that only sums, in any order, so that it can be vectorised."""
    return _compile(function, _FASTMATH | {"reassoc"})


def _compile(function: Function, fastmath: set[str]) -> Function:
    options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        result: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache folder
        result = numba.njit(**options)(function)
    return result


_LOG2_E = 1.4426950408889634

# 1.5 * 2^23 and 1.5 * 2^52: adding them rounds a number to an integer, stored in its lowest bits.
_ROUND_32 = np.float32(12582912.0)
_ROUND_64 = 6755399441055744.0

# log 2 in two parts: the first has few bits, so that its products with integers are exact.
_HIGH_32, _LOW_32 = np.float32(0.693359375), np.float32(-2.1219444e-4)
_HIGH_64, _LOW_64 = 0.6931471803691238, 1.9082149292705877e-10

# Outside this range the result is not a normal number.
_MIN_32, _MAX_32 = np.float32(-87.0), np.float32(88.0)
_MIN_64, _MAX_64 = -708.0, 709.0

# (e^r - 1 - r) / r² for |r| <= log(2) / 2: a minimax fit for float32, the Taylor series for float64.
_F0, _F1, _F2 = np.float32(1.98756915e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_F3, _F4, _F5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)


def exponential(x: float) -> float:
    """Compute e^x to one unit in the last place; 0 or infinity if it is not a normal number, NaN for NaN."""
    raise NotImplementedError("only for compiled functions")


def clamped_exponential(x: float) -> float:
    """Compute e^x like `exponential`, but clamp it to the smallest and largest normal result."""
    raise NotImplementedError("only for compiled functions")


@overload(clamped_exponential)  # type: ignore[untyped-decorator]
def _choose_clamped(x: Any) -> Callable[[Any], Any]:
    return _clamped_single if x == numba.float32 else _clamped_double


@overload(exponential)  # type: ignore[untyped-decorator]
def _choose(x: Any) -> Callable[[Any], Any]:
    return _single if x == numba.float32 else _double


def _clamped_single(x: Any) -> Any:
    x = min(max(x, _MIN_32), _MAX_32)
    shifted = x * np.float32(_LOG2_E) + _ROUND_32
    power = shifted - _ROUND_32
    r = (x - power * _HIGH_32) - power * _LOW_32
    p = ((((_F0 * r + _F1) * r + _F2) * r + _F3) * r + _F4) * r + _F5
    p = p * r * r + r + np.float32(1.0)
    scale = np.int32((np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(127 << 23))
    return p * scale.view(np.float32)


def _single(x: Any) -> Any:
    value: Any = clamped_exponential(x)
    if x < _MIN_32:
        value = np.float32(0.0)
    if x > _MAX_32:
        value = np.float32(np.inf)
    return value


def _clamped_double(x: Any) -> Any:
    x = min(max(x, _MIN_64), _MAX_64)
    shifted = x * _LOG2_E + _ROUND_64
    power = shifted - _ROUND_64
    r = (x - power * _HIGH_64) - power * _LOW_64
    p = (((1 / 479001600 * r + 1 / 39916800) * r + 1 / 3628800) * r + 1 / 362880) * r + 1 / 40320
    p = (((p * r + 1 / 5040) * r + 1 / 720) * r + 1 / 120) * r + 1 / 24
    p = ((p * r + 1 / 6) * r + 0.5) * r * r + r + 1.0
    scale = np.int64((np.float64(shifted).view(np.int64) << np.int64(52)) + np.int64(1023 << 52))
    return p * scale.view(np.float64)


def _double(x: Any) -> Any:
    value = clamped_exponential(x)
    if x < _MIN_64:
        value = 0.0
    if x > _MAX_64:
        value = np.inf
    return value


# Classes processed at a time: they and their sums stay in the L1 cache.
_TILE = 1024
# Rows per float32 sum, few enough to keep all relevant precision; these sums are added in float64.
_SHORT_SUM = 32


@compiled
def add_plain_sums(logits: Any, sums: Any) -> None:
    """Add the sums of e and e², where e = exp(logit), to the first and last row of `sums`.

    Faster than sums with weights. A logit below the range adds the smallest exponential, which is negligible in any sum
    that the caller accepts; a logit above the range makes the sum of squares infinite.
    """
    n_rows, n_classes = logits.shape
    first, second = np.empty(_TILE, logits.dtype), np.empty(_TILE, logits.dtype)
    for top in range(0, n_rows, _SHORT_SUM):
        bottom = min(n_rows, top + _SHORT_SUM)
        for left in range(0, n_classes, _TILE):
            width = min(_TILE, n_classes - left)
            first[:] = 0
            second[:] = 0
            for i in range(top, bottom):
                row = logits[i, left : left + width]
                for j in range(width):
                    value = clamped_exponential(row[j])
                    first[j] += value
                    second[j] += value * value
            for j in range(width):
                sums[0, left + j] += first[j]
                sums[2, left + j] += second[j]


@compiled
def add_exponential_sums(logits: Any, reference: Any, weights: Any, squares: Any, sums: Any) -> None:
    """Add the sums of w e, v e and v e², where e = exp(logit - reference), to the rows of `sums`.

    `weights` w and `squares` v are per sample. They and `reference` have the dtype of the logits.
    """
    n_rows, n_classes = logits.shape
    first, cross, second = (np.empty(_TILE, logits.dtype), np.empty(_TILE, logits.dtype), np.empty(_TILE, logits.dtype))
    for top in range(0, n_rows, _SHORT_SUM):
        bottom = min(n_rows, top + _SHORT_SUM)
        for left in range(0, n_classes, _TILE):
            width = min(_TILE, n_classes - left)
            first[:] = 0
            cross[:] = 0
            second[:] = 0
            origin = reference[left : left + width]
            for i in range(top, bottom):
                row = logits[i, left : left + width]
                weight, square = weights[i], squares[i]
                for j in range(width):
                    value = exponential(row[j] - origin[j])
                    first[j] += weight * value
                    product = square * value
                    cross[j] += product
                    second[j] += product * value
            for j in range(width):
                sums[0, left + j] += first[j]
                sums[1, left + j] += cross[j]
                sums[2, left + j] += second[j]


# For sums in this range, no relevant posterior has underflowed, and the sum has not overflowed.
_SMALL, _LARGE = 1e-30, 1e250


@compiled_sum
def _total(values: Any) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@compiled
def fill_posteriors(logits: Any, biases: Any, temperature: float, posteriors: Any, log_partitions: Any) -> None:
    """Compute the softmax of (logits + biases) / temperature in float64, and the logarithms of its denominators.

    A log-denominator is not finite if the row has NaN, +inf, or only -inf.
    """
    n_rows, n_classes = logits.shape
    inverse = 1.0 / temperature
    for i in range(n_rows):
        row, out = logits[i], posteriors[i]
        # Most logits are small enough to skip subtracting the peak.
        peak = 0.0
        for j in range(n_classes):
            out[j] = exponential((np.float64(row[j]) + biases[j]) * inverse)
        total = _total(out)
        if not _SMALL < total < _LARGE:
            peak = -np.inf
            for j in range(n_classes):
                peak = max(peak, (np.float64(row[j]) + biases[j]) * inverse)
            for j in range(n_classes):
                out[j] = exponential((np.float64(row[j]) + biases[j]) * inverse - peak)
            total = _total(out)
        log_partitions[i] = peak + math.log(total)
        scale = 1.0 / total
        for j in range(n_classes):
            out[j] *= scale
