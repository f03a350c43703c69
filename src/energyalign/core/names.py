"""What is given per class, with names: matched by name wherever both sides have names, never by position."""

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
        Keys, index, or `classes` of the dataset are names, or the numbers 0..n_classes-1 of the classes. Without
        them the counts are in the order of the columns.
    class_names : iterable, optional
        Of the columns.
    n_classes : int
    source : str
        What to call `counts` in an error.

    Returns
    -------
    counts : array-like
        In the order of the columns.
    class_names : tuple of str, or None
        Of the columns: as given, or else as `counts` has them.
    """
    columns = None if class_names is None else names_of(class_names)
    names, values = _split(counts, n_classes)
    if names is None:
        return values, columns
    if columns is None or columns == numbers(n_classes):
        ordered = hasattr(counts, "targets")  # a dataset numbers its classes
        columns = _columns_named_by(names, n_classes, ordered=ordered, source=source) or columns
    return np.asarray(values)[order_by_name(names, columns or numbers(n_classes), source)], columns


def table_by_class(table: Any, class_names: Sequence[str], *, source: str, square: bool = False) -> Any:
    """Put the rows of a table into the order of the classes, and the columns too if it is `square`.

    A data frame names both, a dict of rows only these.
    """
    if square and isinstance(table, Mapping):
        raise BadValueError(f"{source}: give rows of numbers, or a data frame whose rows and columns are named.")
    names, values = _named_rows(table)
    if names is not None:
        values = np.asarray(values)[order_by_name(names, class_names, source, "the classes")]
    if square and hasattr(table, "columns"):
        values = values[:, order_by_name(names_of(table.columns), class_names, f"columns of {source}", "the classes")]
    return values


def find_class(name: object, class_names: Sequence[str], source: str) -> int:
    """The number of the class of this name. Classes without names have the names 0, 1, 2, ..."""
    (text,) = names_of([name])
    if text not in class_names:
        raise BadValueError(f"{source}: unknown class {name!r}; the classes are {some_of(class_names)}.")
    return list(class_names).index(text)


def names_of(labels: Iterable[object]) -> tuple[str, ...]:
    """Class labels as text: 1, 1.0 and "1" are the same name, and pandas' ("a",) is "a"."""
    return refuse_half_characters(tuple(map(_text, labels)))


def refuse_half_characters(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, or an error if one is no text that could be written: Python's strings can have lone surrogates."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        wrong = next(name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name))
        raise EnergyAlignError(
            f"the class name {wrong!r} has half a character in it (a lone surrogate), which no file can hold: "
            "rename the class."
        ) from error
    return names


def columns_of(table: Any) -> tuple[str, ...] | None:
    """The names of the columns of a data frame; pandas' 0, 1, 2, ... are none, nor is that of a single column."""
    columns = names_of(getattr(table, "columns", ()))
    return None if len(columns) < 2 or columns == numbers(len(columns)) else columns


def names_in(counts: Counts | None) -> tuple[str, ...]:
    """The names that counts carry, if any."""
    return _split(counts, 0)[0] or ()


def order_by_name(
    names: Sequence[str], columns: Sequence[str], source: str, other: str = "the columns of the logits"
) -> Ints:
    """Say where in `names` each of the `columns` is. The numbers 0..n-1 are names too, if no column is called so.

    Raises
    ------
    EnergyAlignError
        If they are not the same classes, each once. The message shows both lists.
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
    """The names of columns that have none, from counts that have some; None for 0..n-1."""
    if set(names) == set(numbers(n_classes)):
        return None
    if all(name.isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    if ordered or list(names) == sorted(names):
        return names
    raise EnergyAlignError(
        f"{source}: the classes are [{some_of(names)}], in no sorted order, and the columns of the logits have no "
        "names: say what the columns are, in their order (a data frame; classes= or class_names=; --classes NAMES)."
    )


def _split(counts: Counts, n_classes: int) -> tuple[tuple[str, ...] | None, Any]:
    """Names, if there are any, and numbers. By what it has, not by its type: pandas and torch are not imported."""
    if hasattr(counts, "targets"):  # a torch Dataset
        names = getattr(counts, "classes", None)
        seen = np.bincount(to_numpy(counts.targets), minlength=n_classes if names is None else len(names))
        return None if names is None else names_of(names), seen
    if hasattr(counts, "columns") and hasattr(counts, "to_numpy"):
        return _split_table(counts, counts.to_numpy())
    return _named_rows(counts)


def _named_rows(table: Any) -> tuple[tuple[str, ...] | None, Any]:
    """The names of the rows, if they have any, and the rows: of a dict, a series or a data frame."""
    if isinstance(table, Mapping):
        return names_of(table), list(table.values())
    if hasattr(table, "to_numpy"):
        return names_of(table.index) if hasattr(table, "index") else None, table.to_numpy()
    return None, table


def _split_table(frame: Any, table: npt.NDArray[Any]) -> tuple[tuple[str, ...], Any]:
    """Of a data frame of one row, of names and counts as two columns, or of counts with the names as index."""
    n_rows, n_columns = table.shape
    if n_rows == 1 < n_columns:
        return names_of(frame.columns), table[0]
    if n_columns == 2:
        return names_of(table[:, 0]), table[:, 1]
    if n_columns == 1 and hasattr(frame, "index"):
        return names_of(frame.index), table[:, 0]
    raise EnergyAlignError(
        f"counts are a table of shape {table.shape}: give names and counts as two columns, or counts with the names "
        "as index."
    )


def _text(label: object) -> str:
    if isinstance(label, tuple) and len(label) == 1:
        label = label[0]
    if isinstance(label, (float, np.floating)) and float(label).is_integer():
        label = int(label)
    return str(label)


def numbers(n_classes: int) -> tuple[str, ...]:
    """The names of classes that have none."""
    return tuple(map(str, range(n_classes)))
