"""Heads: convert the output of a model to rows of logits with one label each, and shifts to the shape of the output.

==========  =====================  ================  =========================================
head        logits                 labels            as rows
==========  =====================  ================  =========================================
classes     (n, C)                 (n,)              unchanged
one logit   (n,) or (n, 1)         (n,) of 0 and 1   two classes with logits (0, f)
sequence    (n, T, C)              (n, T)            a row for each token
dense       (n, C, H, W)           (n, H, W)         a row for each pixel; more axes for volumes
==========  =====================  ================  =========================================

Sequences and images may have one logit per position. Independent labels are in `energyalign.core.multilabel`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import (
    Array,
    Floats,
    Ints,
    as_array,
    as_logits,
    is_floating,
    like,
    namespace,
    take_rows,
    to_numpy,
)
from energyalign.core.errors import EnergyAlignError

IGNORE_INDEX = -100  # as in torch.nn.CrossEntropyLoss


def class_axis(n_axes: int) -> int:
    """Return the axis of the classes: after the tokens of a sequence, before the pixels of an image."""
    return 1 if n_axes > 3 else n_axes - 1


def n_columns(shape: tuple[int, ...]) -> int:
    """Return the number of logits per sample, token or pixel."""
    return 1 if len(shape) < 2 else shape[class_axis(len(shape))]


def is_one_logit(shape: tuple[int, ...], n_classes: int) -> bool:
    """Return whether logits of this shape have one logit for two classes."""
    return n_classes == 2 and len(shape) > 0 and n_columns(shape) == 1


def as_two_classes(logits: Array) -> Array:
    """Turn one logit f into logits (0, f), along the axis of the classes."""
    xp = namespace(logits)
    column = xp.reshape(logits, (-1, 1)) if logits.ndim == 1 else logits
    return xp.concat([xp.zeros_like(column), column], axis=class_axis(column.ndim))


def to_rows(logits: Array) -> Array:
    """Reshape logits of any head to (positions, columns)."""
    n_axes = logits.ndim
    if n_axes == 2:
        return logits
    xp = namespace(logits)
    if n_axes > 3:
        logits = xp.permute_dims(logits, (0, *range(2, n_axes), 1))
    return xp.reshape(logits, (-1, 1 if n_axes == 1 else logits.shape[-1]))


class HeadRows(NamedTuple):
    """Logits (n_rows, n_classes) and their labels, without ignored rows.

    `samples` holds the sample number of each row, or None if row i is sample i; `n_positions` is the number of rows
    per sample.
    """

    logits: Array
    labels: npt.NDArray[np.generic] | None
    samples: Ints | None
    n_samples: int
    n_positions: int

    def per_row(self, name: str, values: Array | None) -> Array | None:
        """Expand per-sample values (weights, groups) to rows."""
        if values is None or self.samples is None:
            return values
        given = to_numpy(values)
        if given.shape != (self.n_samples,):
            raise EnergyAlignError(f"{name} must have shape ({self.n_samples},), one per sample, got {given.shape}.")
        return given[self.samples]

    def groups(self, given: npt.ArrayLike | None) -> Array | None:
        """Return the given groups; by default samples are groups, as the pixels of an image are not independent."""
        return self.samples if given is None and self.n_positions > 1 else self.per_row("groups", given)


def open_head(
    logits: Array, labels: Array | None = None, *, ignore_index: int = IGNORE_INDEX, multilabel: bool = False
) -> HeadRows:
    """Convert the output of a model and its labels to rows. The caller validates the labels.

    With `multilabel` (default False), rows have one column per label, in logits and labels, and no row is left out: a
    row may have both ignored and known labels.
    """
    logits = as_array(logits)
    if logits.ndim == 0 or (logits.ndim == 1 and not is_floating(logits)):
        as_logits(logits)  # raises
    rows, shape = to_rows(logits), tuple(logits.shape)
    n_samples = shape[0]
    n_positions = rows.shape[0] // n_samples if n_samples else 1
    samples = np.repeat(np.arange(n_samples), n_positions) if n_positions > 1 else None
    if multilabel:
        return HeadRows(
            rows, None if labels is None else _one_per_logit(labels, shape), samples, n_samples, n_positions
        )
    if rows.shape[1] == 1:
        rows = as_two_classes(rows)
    known = None if labels is None else _one_per_row(to_numpy(labels), shape)
    if known is not None and known.shape == (n_samples * n_positions,) and known.dtype.kind in "iuf":
        kept = known_rows(known, ignore_index)
        if kept is not None:
            rows, known = take_rows(rows, kept) if len(kept) else rows[:0, :], known[kept]
            samples = kept if samples is None else samples[kept]
    return HeadRows(rows, known, samples, n_samples, n_positions)


def known_rows(labels: npt.NDArray[np.generic], ignore_index: int) -> Ints | None:
    """Return the rows whose label is not ignored, or None if all are known."""
    known = np.flatnonzero(labels != ignore_index)
    return known if len(known) < len(labels) else None


def add_shifts(logits: Array, columns: Floats, *, inplace: bool = False) -> Array:
    """Add one number per column to logits of any head."""
    added = like(in_form_of(columns, logits.ndim), logits)
    if not inplace:
        return logits + added
    logits += added
    return logits


def in_form_of(columns: Array, n_axes: int) -> Array:
    """Reshape one number per column so that it broadcasts to logits with `n_axes` axes."""
    n_after = n_axes - 1 - class_axis(n_axes)
    return columns.reshape((-1,) + (1,) * n_after) if n_after else columns


def as_floating(logits: Array) -> Array:
    """Return logits of any shape as an array, or raise if they are not floating point."""
    logits = np.asarray(logits) if isinstance(logits, (list, tuple)) else logits
    if not hasattr(logits, "dtype") or not is_floating(logits):
        raise EnergyAlignError(f"logits must be a floating array, got {getattr(logits, 'dtype', type(logits))}.")
    return logits


def refuse_other_columns(shape: tuple[int, ...], n_columns: int) -> None:
    """Raise unless logits of this shape have `n_columns` columns."""
    if not shape or shape[class_axis(len(shape))] != n_columns:
        raise EnergyAlignError(
            f"logits of shape {tuple(shape)} do not fit shifts for {n_columns} classes: give one column per class."
        )


def refuse_nan(logits: Array) -> None:
    """Raise if there is a NaN, with the index of the first."""
    xp = namespace(logits)
    undefined = xp.isnan(logits)
    if bool(xp.any(undefined)):
        first = ", ".join(str(index) for index in np.argwhere(to_numpy(undefined))[0])
        raise EnergyAlignError(f"logits to correct have NaN, first at [{first}]: fix the model or drop these samples.")


def _one_per_row(labels: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """Flatten labels to the order of the rows; ignore axes of length 1."""
    axis = class_axis(len(shape))
    wanted = shape if len(shape) < 2 else (*shape[:axis], *shape[axis + 1 :])
    if labels.shape[:1] == wanted[:1] and _longer_axes(labels.shape[1:]) == _longer_axes(wanted[1:]):
        return labels.reshape(-1)
    if len(shape) <= 2:
        return labels  # check_labels raises
    raise EnergyAlignError(
        f"labels must have shape {wanted}, one per position of logits of shape {tuple(shape)}, got {labels.shape}."
    )


def _one_per_logit(labels: Array, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    given = to_numpy(labels)
    if given.shape != shape:
        raise EnergyAlignError(
            f"labels must have the shape of the logits, {shape}, with 0 or 1 for each label, got {given.shape}."
        )
    return np.asarray(to_rows(given))


def _longer_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)
