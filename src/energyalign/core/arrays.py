"""Arrays of any array-API namespace: checks of logits, slices of rows, small results as NumPy."""

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
    """The array-API namespace of `array`."""
    from array_api_compat import array_namespace

    return array_namespace(array)


def is_floating(array: Array) -> bool:
    """True for real floating dtypes, the half precisions of other namespaces included."""
    if isinstance(array, np.ndarray):
        return bool(np.issubdtype(array.dtype, np.floating))
    return bool(namespace(array).isdtype(array.dtype, "real floating")) or "float" in str(array.dtype)


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """A small result (per class, per sample) as a NumPy array on the host."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()  # torch
    elif hasattr(array, "device") and hasattr(array, "get"):
        array = array.get()  # cupy
    return np.asarray(array)


def working_precision(block: Array, *, double: bool = False) -> Array:
    """`block` in float64 if it has that precision or `double` asks for it, otherwise in float32."""
    xp = namespace(block)
    # By size, because float64 of the other byte order and long double are not equal to float64.
    wide = block.dtype == xp.float64 or getattr(block.dtype, "itemsize", 0) >= 8
    wanted = xp.float64 if double or wide else xp.float32
    return block if block.dtype == wanted else xp.astype(block, wanted)


def like(values: npt.ArrayLike, block: Array) -> Array:
    """`values` as an array of the namespace, dtype and device of `block`."""
    if isinstance(block, np.ndarray):
        return np.asarray(values, dtype=block.dtype)
    from array_api_compat import device

    # Torch would share the memory of a read-only array, with a warning.
    source = np.require(values, requirements="W")
    return namespace(block).asarray(source, dtype=block.dtype, device=device(block))


def row_pieces(block: Array, max_rows: int) -> Iterator[tuple[int, Array]]:
    """Slices of at most so many rows, each with the number of its first row."""
    n_rows = block.shape[0]
    for start in range(0, n_rows, max_rows):
        # The array API leaves a slice beyond the end undefined.
        yield start, block[start : min(start + max_rows, n_rows), :]


def take_rows(block: Array, rows: Ints) -> Array:
    """The rows of these numbers, which rise."""
    first, stop = int(rows[0]), int(rows[-1]) + 1
    if stop - first == len(rows):  # without a copy
        return block[first:stop, :]
    if isinstance(block, np.ndarray):
        return block[rows]
    from array_api_compat import device

    xp = namespace(block)
    return xp.take(block, xp.asarray(rows, device=device(block)), axis=0)


def take_from_each(rows: Array, columns: Ints) -> Floats:
    """One number of each row: that in the column of the same place in `columns`."""
    n_rows, n_columns = rows.shape
    one_column = namespace(rows).reshape(rows, (-1, 1))
    return to_numpy(take_rows(one_column, n_columns * np.arange(n_rows) + columns))[:, 0]


def array_of(table: Array) -> Array:
    """The array of a data frame or a list; any other array as it is."""
    if hasattr(table, "to_numpy"):
        return table.to_numpy()
    return np.asarray(table) if isinstance(table, (list, tuple)) else table


def as_array(logits: Array, *, name: str = "logits") -> Array:
    """Logits of any shape as a dense array, detached."""
    logits = array_of(logits)
    if hasattr(logits, "tocsr"):
        raise EnergyAlignError(f"{name} must be a dense array; sparse input is not supported: call .toarray() first.")
    if not hasattr(logits, "dtype") or not hasattr(logits, "ndim"):
        raise EnergyAlignError(f"{name} must be an array (n_samples, n_classes), not {type(logits).__name__}.")
    if hasattr(logits, "detach"):
        logits = logits.detach()
    return logits


def as_logits(logits: Array, n_classes: int | None = None, *, name: str = "logits") -> Array:
    """Check that `logits` is a floating array (n_samples, n_classes) and return it, detached, as an array.

    The values are not looked at here: the reductions that follow see a NaN or +inf for free.
    """
    logits = as_array(logits, name=name)
    if logits.ndim != 2:
        hint = (
            "" if logits.ndim != 1 else f" {ONE_SCORE}" if is_floating(logits) else " Give logits first, then labels."
        )
        raise EnergyAlignError(
            f"{name} must have two dimensions (n_samples, n_classes), not shape {tuple(logits.shape)}.{hint}"
        )
    if not is_floating(logits):
        raise EnergyAlignError(
            f"{name} must be floating point, not {logits.dtype}: pass the scores before argmax or rounding."
        )
    if logits.shape[1] < 2:
        raise EnergyAlignError(f"{name} has {logits.shape[1]} class columns; at least 2 are needed. {ONE_SCORE}")
    if n_classes is not None and logits.shape[1] != n_classes:
        raise EnergyAlignError(f"{name} has {logits.shape[1]} class columns, but {n_classes} were expected.")
    return logits


def refuse_bad_value(block: Array, samples: Sequence[int] | Ints | None = None, *, name: str = "logits") -> None:
    """Raise the error that names the first NaN or +inf of `block`, if there is one.

    `samples` are the numbers of the rows in what the caller was given, if they are not 0, 1, 2, ...
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
        "Drop that sample or mend the model; a class that must not be predicted is marked with -inf."
    )
    error.sample = sample
    raise error
