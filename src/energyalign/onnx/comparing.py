"""Arithmetic on arrays of logits: comparison, log-softmax, class axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = dict[str, NDArray[Any]]  # tensor name -> its value in one run

# Tolerance by bytes per number, relative to the largest: rounding, if the shifts are added at another place.
_TOLERANCE = {2: 4e-3, 4: 1e-5, 8: 1e-12}


def largest_difference(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Return the largest absolute difference; infinite if shapes, or infinite or NaN entries, differ."""
    if found.shape != wanted.shape:
        return np.inf
    a, b = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0))


def close(found: NDArray[Any], wanted: NDArray[Any], *, like: NDArray[Any] | None = None) -> bool:
    """Return whether the arrays differ only by rounding of `found`, or of `like`, from which it was computed."""
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    like = found if like is None else like
    coarsest = min(found.dtype.itemsize, like.dtype.itemsize)
    return largest_difference(found, wanted) <= _TOLERANCE[coarsest] * max(_size(wanted), _size(like))


def log_softmax(logits: NDArray[Any], axis: int) -> NDArray[np.float64]:
    """Compute log-softmax in float64, safe for large logits and for classes at -inf."""
    values: NDArray[np.float64] = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):  # -inf for every class gives NaN, as in the model
        values = values - values.max(axis=axis, keepdims=True)
        return np.asarray(values - np.log(np.exp(values).sum(axis=axis, keepdims=True)))


def sigmoid(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the sigmoid in float64, safe for large logits."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logits.astype(np.float64)))


def class_axes(shape: tuple[int, ...], n_classes: int) -> list[int]:
    """Return the axes that may be the class axis. The first axis is for samples, unless it is the only one."""
    return [axis for axis, size in enumerate(shape) if size == n_classes and (axis > 0 or len(shape) == 1)]


def along(values: NDArray[Any], axis: int, n_dimensions: int) -> NDArray[Any]:
    """Reshape one number per class to broadcast along `axis` of an array with `n_dimensions`."""
    return values.reshape((-1,) + (1,) * (n_dimensions - 1 - axis))


def round_to(values: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round to the precision of the model. Numbers that are too large become infinite, which `verify` notices."""
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _size(values: NDArray[Any]) -> float:
    """Return the largest finite magnitude, and at least 1."""
    return float(np.max(np.abs(values.astype(np.float64)), where=np.isfinite(values), initial=1.0))
