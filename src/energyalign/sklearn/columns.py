"""Match the columns of logits with the labels of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Array
from energyalign.core.checks import flat_labels
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.core.names import Counts, columns_of, names_in, names_of, numbers, order_by_name

Labels = npt.NDArray[Any]


def find_columns(
    n_classes: int,
    columns: tuple[str, ...] | None,
    *,
    classes: Sequence[Any] | None = None,
    labels: Labels | None = None,
    categories: Labels | None = None,
    counts: Counts | None = None,
) -> tuple[Labels, tuple[str, ...]]:
    """Return the label of each column, and the names of the columns.

    Parameters
    ----------
    n_classes : int
    columns : tuple of str or None
        Column names of a data frame.
    classes : sequence, default=None
        Labels given by the user: named columns are reordered to match.
    labels : array, default=None
        Labels of the samples.
    categories : array, default=None
        Categories of categorical labels, in the order of the columns; None for sorted order.
    counts : default=None
        Training counts, which may name classes that no sample has.
    """
    if classes is not None:
        known = _check_classes(np.asarray(classes), n_classes)
        return known, names_of(known)
    if columns is None:
        known = np.arange(n_classes) if labels is None else _infer_classes(labels, categories, counts, n_classes)
        return known, names_of(known)
    if len(set(columns)) < n_classes:
        raise EnergyAlignError(f"two columns of X have the same name: [{some_of(columns)}]. Rename one.")
    seen = set() if labels is None else set(names_of(np.unique(labels)))
    by_number = seen and seen <= set(numbers(n_classes)) and not seen <= set(columns)
    return np.arange(n_classes) if by_number else _as_labels(columns, labels), columns


def reorder(matrix: Array, columns: tuple[str, ...] | None, names: tuple[str, ...]) -> Array:
    """Put named columns into the order of `names`."""
    if columns is None or names in (columns, numbers(len(names))):
        return matrix
    return matrix[:, order_by_name(columns, names, "the columns of X", "the classes")]


def labels_of(y: Array) -> Labels:
    """Return labels as a NumPy array; for one-hot rows the column of the 1, or its name in a data frame."""
    labels = flat_labels(y)
    return labels if columns_of(y) is None or labels.ndim != 1 else np.array(list(y.columns))[labels]


def categories_of(y: Any) -> Labels | None:
    """Return the categories of a pandas Categorical or categorical series, in their order, or None."""
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    return None if categories is None else np.asarray(categories)


def encode(labels: Labels, classes: Labels) -> npt.NDArray[np.int64]:
    """Return the column of each label."""
    order = np.argsort(classes)
    place = np.clip(np.searchsorted(classes, labels, sorter=order), 0, len(classes) - 1)
    columns = order[place]
    unknown = classes[columns] != labels
    if np.any(unknown):
        names = np.unique(labels[unknown]).tolist()
        raise EnergyAlignError(
            f"y has labels that no column stands for: {some_of(names)}. The columns are "
            f"[{some_of(classes.tolist())}]: give y with these labels, as the model was trained on them."
        )
    return np.asarray(columns, dtype=np.int64)


def _check_classes(classes: Labels, n_classes: int) -> Labels:
    if classes.shape != (n_classes,):
        raise EnergyAlignError(
            f"classes must have one label for each of the {n_classes} columns of the logits, got shape {classes.shape}."
        )
    if len(np.unique(classes)) < n_classes:
        raise EnergyAlignError("classes names a label twice: give each column its own label.")
    return classes


def _infer_classes(labels: Labels, categories: Labels | None, counts: Counts | None, n_classes: int) -> Labels:
    """Return the labels of columns without names."""
    seen, counted = np.unique(labels), names_in(counts)
    if categories is not None and len(seen) <= n_classes:
        seen = categories if len(categories) == n_classes else categories[np.isin(categories, seen)]
    if len(seen) < n_classes == len(counted) and set(names_of(seen)) <= set(counted):
        return np.sort(_as_labels(counted, labels))
    if np.issubdtype(seen.dtype, np.integer) and len(seen) < n_classes:
        return np.arange(n_classes)
    if len(seen) != n_classes:
        raise EnergyAlignError(
            f"y has {len(seen)} distinct labels and the logits have {n_classes} columns: "
            "say which label each column stands for with classes=[...]."
        )
    return seen


def _as_labels(names: Sequence[str], labels: Labels | None) -> Labels:
    """Return names as labels, as integers if the labels of the samples are integers."""
    whole = labels is not None and labels.dtype.kind in "iu" and all(name.isdecimal() for name in names)
    return np.array([int(name) for name in names] if whole else names)
