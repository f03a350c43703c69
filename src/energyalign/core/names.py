"""Match per-class inputs to the columns of the logits: by name if both have names, otherwise by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Ints, to_numpy
from energyalign.core.errors import BadValueError, EnergyAlignError, some_of

Counts: TypeAlias = Any  # an array-like, dict, Counter, pandas Series or DataFrame, or dataset with `targets`


def counts_by_class(
    counts: Counts, class_names: Iterable[object] | None, n_classes: int, *, source: str = "training counts"
) -> tuple[Any, tuple[str, ...] | None]:
    """Put one number per class into the order of the columns of the logits.

    Parameters
    ----------
    counts : array, dict, Counter, pandas Series or DataFrame, or dataset with `targets`
        Keys, index, or `classes` of the dataset are class names or the numbers 0..n_classes-1. Without such names,
        the counts are in the order of the columns.
    class_names : iterable, optional
        Names of the columns.
    n_classes : int
    source : str, default="training counts"
        Name of `counts` in errors.

    Returns
    -------
    counts : array-like
        In the order of the columns.
    class_names : tuple of str, or None
        Names of the columns: as given, otherwise the names in `counts`.
    """
    columns = None if class_names is None else names_of(class_names)
    names, values = _split(counts, n_classes)
    if names is None:
        return values, columns
    if columns is None or columns == numbers(n_classes):
        ordered = hasattr(counts, "targets")  # the classes of a dataset are in order
        columns = _columns_named_by(names, n_classes, ordered=ordered, source=source) or columns
    return np.asarray(values)[order_by_name(names, columns or numbers(n_classes), source)], columns


def table_by_class(table: Any, class_names: Sequence[str], *, source: str, square: bool = False) -> Any:
    """Put the rows of a table into the order of the classes, and the columns too if it is `square` (default False).

    A data frame names rows and columns, a dict of rows only the rows.
    """
    if square and isinstance(table, Mapping):
        raise BadValueError(f"{source} must be an array, or a data frame with named rows and columns, got a dict.")
    names, values = _named_rows(table)
    if names is not None:
        values = np.asarray(values)[order_by_name(names, class_names, source, "the classes")]
    if square and hasattr(table, "columns"):
        values = values[:, order_by_name(names_of(table.columns), class_names, f"columns of {source}", "the classes")]
    return values


def find_class(name: object, class_names: Sequence[str], source: str) -> int:
    """Return the number of the class with this name. Classes without names are called 0, 1, 2, ..."""
    (text,) = names_of([name])
    if text not in class_names:
        raise BadValueError(f"{source}: unknown class {name!r}: choose one of {some_of(class_names)}.")
    return list(class_names).index(text)


def names_of(labels: Iterable[object]) -> tuple[str, ...]:
    """Convert class labels to text: 1, 1.0 and "1" become "1", and pandas' ("a",) becomes "a"."""
    return refuse_half_characters(tuple(map(_text, labels)))


def refuse_half_characters(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, or raise if one has a lone surrogate, which cannot be encoded."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        wrong = next(name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name))
        raise EnergyAlignError(
            f"the class name {wrong!r} contains a lone surrogate (half a character), which cannot be encoded: "
            "rename the class."
        ) from error
    return names


def columns_of(table: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame, or None for the default names 0, 1, 2, ... and for a single column."""
    columns = names_of(getattr(table, "columns", ()))
    return None if len(columns) < 2 or columns == numbers(len(columns)) else columns


def names_in(counts: Counts | None) -> tuple[str, ...]:
    """Return the class names in `counts`, if any."""
    return _split(counts, 0)[0] or ()


def order_by_name(
    names: Sequence[str], columns: Sequence[str], source: str, other: str = "the columns of the logits"
) -> Ints:
    """Return the position in `names` of each of the `columns`; `names` may be the numbers 0..n-1 of the columns.

    Raises
    ------
    EnergyAlignError
        If `names` and `columns` are not the same classes, or a class is repeated.
    """
    by_number = set(names) == set(numbers(len(columns))) and not set(names) & set(columns)
    wanted = numbers(len(columns)) if by_number else columns
    place = {name: index for index, name in enumerate(names)}
    if set(place) != set(wanted) or len(names) != len(wanted):
        missing = [name for name in wanted if name not in place]
        unknown = [name for name in place if name not in set(wanted)]
        raise EnergyAlignError(
            f"{source}: the classes are [{some_of(names)}], but {other} are [{some_of(columns)}]: missing "
            f"{some_of(missing) or 'none'}; unknown {some_of(unknown) or 'none'}. Name each class once."
        )
    return np.array([place[name] for name in wanted])


def _columns_named_by(names: tuple[str, ...], n_classes: int, *, ordered: bool, source: str) -> tuple[str, ...] | None:
    """Return column names from the names in counts, or None for 0..n-1; raise if their order is unclear."""
    if set(names) == set(numbers(n_classes)):
        return None
    if all(name.isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    if ordered or list(names) == sorted(names):
        return names
    raise EnergyAlignError(
        f"{source}: the classes are [{some_of(names)}], in no sorted order, and the columns of the logits have no "
        "names: name the columns in their order (a data frame; classes= or class_names=; --classes NAMES)."
    )


def _split(counts: Counts, n_classes: int) -> tuple[tuple[str, ...] | None, Any]:
    """Return names (or None) and counts. Detect types by their attributes: pandas and torch are not imported."""
    if hasattr(counts, "targets"):  # a torch Dataset
        names = getattr(counts, "classes", None)
        seen = np.bincount(to_numpy(counts.targets), minlength=n_classes if names is None else len(names))
        return None if names is None else names_of(names), seen
    if hasattr(counts, "columns") and hasattr(counts, "to_numpy"):
        return _split_table(counts, counts.to_numpy())
    return _named_rows(counts)


def _named_rows(table: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Return row names (or None) and rows of a dict, series or data frame."""
    if isinstance(table, Mapping):
        return names_of(table), list(table.values())
    if hasattr(table, "to_numpy"):
        return names_of(table.index) if hasattr(table, "index") else None, table.to_numpy()
    return None, table


def _split_table(frame: Any, table: npt.NDArray[Any]) -> tuple[tuple[str, ...], Any]:
    """Read a data frame of one row, of two columns (names, counts), or of one column with the names as index."""
    n_rows, n_columns = table.shape
    if n_rows == 1 < n_columns:
        return names_of(frame.columns), table[0]
    if n_columns == 2:
        return names_of(table[:, 0]), table[:, 1]
    if n_columns == 1 and hasattr(frame, "index"):
        return names_of(frame.index), table[:, 0]
    raise EnergyAlignError(
        f"counts must have two columns (names, counts) or one column with the names as index, got a table of shape "
        f"{table.shape}."
    )


def _text(label: object) -> str:
    if isinstance(label, tuple) and len(label) == 1:
        label = label[0]
    if isinstance(label, (float, np.floating)) and float(label).is_integer():
        label = int(label)
    return str(label)


def numbers(n_classes: int) -> tuple[str, ...]:
    """Return the default class names "0", "1", ..."""
    return tuple(map(str, range(n_classes)))
