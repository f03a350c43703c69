"""Helpers for arrays of any array-API namespace: validation, row slices, conversion to NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from energyalign.core.errors import BadValueError, EnergyAlignError

Array: TypeAlias = Any  # an array of any array-API namespace: numpy, torch, cupy, jax, ...
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

ONE_SCORE = (
    "One score z for two classes: give np.column_stack([-z / 2, z / 2]); one probability p: "
    "np.log(np.column_stack([1 - p, p]))."
)


def namespace(array: Array) -> Any:
    """Return the array-API namespace of `array`."""
    from array_api_compat import array_namespace

    return array_namespace(array)


def is_floating(array: Array) -> bool:
    """Return True for real floating dtypes, including the half precisions of other namespaces."""
    if isinstance(array, np.ndarray):
        return bool(np.issubdtype(array.dtype, np.floating))
    return bool(namespace(array).isdtype(array.dtype, "real floating")) or "float" in str(array.dtype)


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Copy a small result (per class or per sample) to a NumPy array on the host."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()  # torch
    elif hasattr(array, "device") and hasattr(array, "get"):
        array = array.get()  # cupy
    return np.asarray(array)


def working_precision(block: Array, *, double: bool = False) -> Array:
    """Convert `block` to float64 if it has at least 64 bits or `double` is set, otherwise to float32."""
    xp = namespace(block)
    # Compare sizes: byte-swapped float64 and long double are not equal to float64.
    wide = block.dtype == xp.float64 or getattr(block.dtype, "itemsize", 0) >= 8
    wanted = xp.float64 if double or wide else xp.float32
    return block if block.dtype == wanted else xp.astype(block, wanted)


def like(values: npt.ArrayLike, block: Array) -> Array:
    """Convert `values` to the namespace, dtype and device of `block`."""
    if isinstance(block, np.ndarray):
        return np.asarray(values, dtype=block.dtype)
    from array_api_compat import device

    # Torch warns when it wraps a read-only array.
    source = np.require(values, requirements="W")
    return namespace(block).asarray(source, dtype=block.dtype, device=device(block))


def row_pieces(block: Array, max_rows: int) -> Iterator[tuple[int, Array]]:
    """Yield slices of at most `max_rows` rows, each with the index of its first row."""
    n_rows = block.shape[0]
    for start in range(0, n_rows, max_rows):
        # The array API leaves a slice beyond the end undefined.
        yield start, block[start : min(start + max_rows, n_rows), :]


def take_rows(block: Array, rows: Ints) -> Array:
    """Return the rows at these increasing indices, as a view if they are consecutive."""
    first, stop = int(rows[0]), int(rows[-1]) + 1
    if stop - first == len(rows):
        return block[first:stop, :]
    if isinstance(block, np.ndarray):
        return block[rows]
    from array_api_compat import device

    xp = namespace(block)
    return xp.take(block, xp.asarray(rows, device=device(block)), axis=0)


def take_from_each(rows: Array, columns: Ints) -> Floats:
    """Return `rows[i, columns[i]]` for every row i."""
    n_rows, n_columns = rows.shape
    one_column = namespace(rows).reshape(rows, (-1, 1))
    return to_numpy(take_rows(one_column, n_columns * np.arange(n_rows) + columns))[:, 0]


def array_of(table: Array) -> Array:
    """Convert a data frame, list or tuple to NumPy; return anything else unchanged."""
    if hasattr(table, "to_numpy"):
        return table.to_numpy()
    return np.asarray(table) if isinstance(table, (list, tuple)) else table


def as_array(logits: Array, *, name: str = "logits") -> Array:
    """Return logits of any shape as a dense, detached array."""
    logits = array_of(logits)
    if hasattr(logits, "tocsr"):
        raise EnergyAlignError(f"{name} must be a dense array; sparse input is not supported: call .toarray() first.")
    if not hasattr(logits, "dtype") or not hasattr(logits, "ndim"):
        raise EnergyAlignError(f"{name} must be an array (n_samples, n_classes), got {type(logits).__name__}.")
    if hasattr(logits, "detach"):
        logits = logits.detach()
    return logits


def as_logits(logits: Array, n_classes: int | None = None, *, name: str = "logits") -> Array:
    """Return `logits` as a detached floating array (n_samples, n_classes), or raise if it is not one.

    Values are not checked here: the reductions that follow detect NaN and +inf at no cost.
    """
    logits = as_array(logits, name=name)
    if logits.ndim != 2:
        hint = (
            "" if logits.ndim != 1 else f" {ONE_SCORE}" if is_floating(logits) else " Give logits first, then labels."
        )
        raise EnergyAlignError(
            f"{name} must have two dimensions (n_samples, n_classes), got shape {tuple(logits.shape)}.{hint}"
        )
    if not is_floating(logits):
        raise EnergyAlignError(
            f"{name} must be floating point, got {logits.dtype}: pass the scores before argmax or rounding."
        )
    if logits.shape[1] < 2:
        raise EnergyAlignError(f"{name} must have at least 2 class columns, got {logits.shape[1]}. {ONE_SCORE}")
    if n_classes is not None and logits.shape[1] != n_classes:
        raise EnergyAlignError(f"{name} has {logits.shape[1]} class columns, but {n_classes} were expected.")
    return logits


def refuse_bad_value(block: Array, samples: Sequence[int] | Ints | None = None, *, name: str = "logits") -> None:
    """Raise `BadValueError` for the first NaN or +inf in `block`, if there is one.

    `samples` holds the sample number of each row, for the message; by default 0, 1, 2, ...
    """
    xp = namespace(block)
    bad = to_numpy(xp.isnan(block) | (block == xp.inf))
    if not bad.any():
        return
    row, column = (int(index[0]) for index in np.nonzero(bad))
    value = "NaN" if bool(xp.isnan(block[row, column])) else "+inf"
    sample = row if samples is None else int(samples[row])
    error = BadValueError(
        f"{name} has {value} at sample {sample}, class {column} (counted from 0). "
        "Drop that sample or fix the model; to exclude a class, set its logit to -inf."
    )
    error.sample = sample
    raise error


def scale_errors(errors: Floats, strength: float) -> Floats:
    """Return the standard errors of shifts times `strength`: 0 for strength 0, also if an error is unknown (inf)."""
    return abs(strength) * errors if strength else np.zeros_like(errors)
