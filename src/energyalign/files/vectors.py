"""Read labels, counts, priors and cluster assignments from files."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core._io.strict_json import read_json_file
from energyalign.core.checks import flat_labels
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.core.names import names_of
from energyalign.files.checks import (
    InputFile,
    is_number,
    label_column,
    reading,
    require_distinct,
    require_extension,
)
from energyalign.files.csv import not_a_number, read_small, text_array
from energyalign.files.npy import read_array_file, read_vector_file

EXTENSIONS = (".npy", ".json", ".csv")


def read_labels(
    path: str | Path, class_names: Sequence[str] | None = None, n_rows: int | None = None
) -> NDArray[np.int64]:
    """Read the class index of every sample.

    Parameters
    ----------
    path : str or Path
        A .npy array in the shape of the samples, tokens or pixels, or of one-hot rows; a .json list; or a .csv file
        with one column, with or without a header. Class names are looked up in `class_names`; other integers are
        class indices.
    class_names : sequence of str, default=None
        Class names in the order of the columns of the logits.
    n_rows : int, default=None
        Number of rows of logits. If a .csv file has one line more, its first line is a header, whatever it contains.

    Returns
    -------
    numpy.ndarray of int64
        Indices may be out of range: the caller checks that.
    """
    path = Path(path)
    match require_extension(path, EXTENSIONS):
        case ".npy":
            values = read_array_file(path)
            if values.ndim != 1 and values.size != n_rows:
                values = _from_one_hot(values, path, n_rows)
            values = values.reshape(-1)
        case ".json":
            values = _text_or_numbers(_read_list(path, "class indices or of class names"))
        case _:
            cells = text_array(cells[0] for _, cells in read_small(path, max_columns=1))
            header = label_column(cells[:1].tolist(), str(path)) or len(cells) - 1 == n_rows
            values = cells[1:] if header else cells
    return label_indices(values, class_names, str(path))


def _from_one_hot(values: NDArray[Any], path: Path, n_rows: int | None) -> NDArray[Any]:
    labels = flat_labels(values)
    if labels.shape == (n_rows,):
        return labels
    remedy = " If samples have several labels, give --multilabel." if values.shape[:1] == (n_rows,) else ""
    rows = "row" if n_rows is None else f"of {n_rows} rows"
    raise EnergyAlignError(
        f"{path} must have one label, or one-hot row, for each {rows} of logits, got shape {values.shape}.{remedy}"
    )


def read_matrix(path: str | Path, what: str) -> NDArray[Any]:
    """Read a .npy file of numbers with two dimensions or more, such as independent labels."""
    path = Path(path)
    require_extension(path, (".npy",))
    values = read_array_file(path)
    if values.ndim < 2 or values.dtype.kind not in "biuf":
        raise EnergyAlignError(f"{path} must hold {what}, got {values.dtype} of shape {values.shape}.")
    return values


def read_counts(path: str | Path) -> NDArray[np.float64] | dict[str, float]:
    """Read a finite number >= 0 for every class, such as its number of training samples.

    Parameters
    ----------
    path : str or Path
        A .npy vector; a .json list of numbers, or object ``{name: number}``; a .csv file with a column of numbers,
        or with names and numbers, with or without a header.

    Returns
    -------
    numpy.ndarray of float64, or dict
        A dict from name to number if the file names the classes.
    """
    values, names = _read_numbers(Path(path))
    return values if names is None else dict(zip(names, values.tolist(), strict=True))


def read_names(given: str) -> tuple[str, ...]:
    """Return column names, given as ``a,b,c`` or as a .json file with a list."""
    if not given.endswith(".json"):
        names: list[Any] = [name.strip() for name in given.split(",")]
    else:
        names = _read_list(Path(given), "class names")
    require_distinct([str(name) for name in names], given)
    return names_of(names)


def read_assignment(path: str | Path) -> tuple[int, ...]:
    """Read the cluster of each class: a .json list of cluster indices."""
    path = Path(path)
    require_extension(path, (".json",))
    clusters = _read_list(path, "cluster indices, one for each class")
    for position, cluster in enumerate(clusters):
        if type(cluster) is not int or cluster < 0:
            raise EnergyAlignError(
                f"{path}: expected a cluster index (0, 1, 2, ...) at position {position} (counted from 0), got "
                f"{reprlib.repr(cluster)}."
            )
    return tuple(clusters)


def _read_list(path: Path, of_what: str) -> list[Any]:
    content = _read_json(path)
    if not isinstance(content, list):
        raise EnergyAlignError(f"{path} must hold a list of {of_what}, got a JSON {_json_type(content)}.")
    if not content:
        raise EnergyAlignError(f"{path} must hold a list of {of_what}, got an empty list.")
    return content


def _text_or_numbers(values: list[Any]) -> NDArray[Any]:
    """Return an array of numbers or, if a value is not a number, of objects; `label_indices` refuses all but text."""
    if all(type(value) in (int, float) for value in values):
        return np.array(values)
    return np.array(values, dtype=object)


def _read_numbers(path: Path) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Return finite numbers >= 0, and their names if there are any."""
    names: tuple[str, ...] | None = None
    match require_extension(path, EXTENSIONS):
        case ".npy":
            values = read_vector_file(path)
            if values.dtype.kind not in "iuf":
                raise EnergyAlignError(f"{path} must hold numbers, got {values.dtype}.")
            values = values.astype(np.float64)
        case ".json":
            names, values = _from_json(path)
        case _:
            names, values = _from_csv(path)
    if names is not None:
        require_distinct(names, str(path))
    if not len(values):
        raise EnergyAlignError(f"{path} must hold one number per class, got none.")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        where = f"position {first} (counted from 0)" if names is None else f"class {names[first]!r}"
        raise EnergyAlignError(f"{path}: expected a finite number >= 0 for {where}, got {values[first]}.")
    return values, names


def _from_json(path: Path) -> tuple[tuple[str, ...] | None, NDArray[np.float64]]:
    content = _read_json(path)
    if not isinstance(content, (list, dict)):
        raise EnergyAlignError(
            f"{path} must hold a list of numbers, or an object from name to number, got a JSON {_json_type(content)}."
        )
    names = tuple(content) if isinstance(content, dict) else None
    values = list(content.values()) if isinstance(content, dict) else content
    for where, value in zip(names or range(len(values)), values, strict=True):
        if type(value) not in (int, float):
            raise EnergyAlignError(f"{path}: expected a number for class {where!r}, got {reprlib.repr(value)}.")
    with reading(str(path), "a file of numbers"):  # an integer may be too large for a float
        return names, np.array(values, dtype=np.float64)


def _from_csv(path: Path) -> tuple[tuple[str, ...] | None, NDArray[np.float64]]:
    rows = list(read_small(path, max_columns=2))
    if _is_word(rows[0][1][-1]):
        del rows[0]
    for line, cells in rows:
        if not is_number(cells[-1]):
            raise EnergyAlignError(f"{path}, line {line}: {not_a_number(cells[-1])}")
    numbers = np.array([float(cells[-1]) for _, cells in rows])
    named = bool(rows) and len(rows[0][1]) == 2
    return (tuple(cells[0].strip() for _, cells in rows) if named else None), numbers


def _is_word(cell: str) -> bool:
    """Return whether a cell is a column name. Names have no digits, so that a mistyped number is not taken for one."""
    letters = any(character.isalpha() for character in cell)
    return letters and not any(character.isdigit() for character in cell) and not is_number(cell)


def _read_json(path: Path) -> Any:
    with InputFile(path, str(path), "JSON in UTF-8").reading():
        return read_json_file(path)


def _json_type(content: object) -> str:
    """Return JSON's name for the type of a value."""
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(content), "number")


_REMEDY = "Write labels as class indices (0, 1, 2, ...) or as class names."


def label_indices(values: NDArray[Any], class_names: Sequence[str] | None, source: str) -> NDArray[np.int64]:
    """Return class indices for the labels read from `source`.

    Labels are names if all of them are in `class_names`; otherwise they must be integers, which are indices.
    Indices may be out of range: the caller checks that.
    """
    if not len(values):
        raise EnergyAlignError(f"{source} must hold one label per row of logits, got none.")
    kind = values.dtype.kind
    columns = {name: index for index, name in enumerate(class_names or ())}
    if kind in "iuf":
        integers = _to_integers(values, source)
        distinct, place = np.unique(integers, return_inverse=True)
        named = np.array([columns.get(name, -1) for name in names_of(distinct.tolist())])
        return named[place] if np.all(named >= 0) else integers
    if kind == "O":
        _refuse_first(values, np.array([not isinstance(value, str) for value in values]), source)
    elif kind != "U":
        raise EnergyAlignError(f"{source} must hold labels, got {values.dtype}. {_REMEDY}")
    # Look up distinct names only: they are few, however many samples there are.
    codes: dict[str, int] = {}
    inverse: NDArray[np.int64] = np.array([codes.setdefault(text, len(codes)) for text in values.tolist()])
    indices = np.array([columns.get(text, -1) for text in codes], dtype=np.int64)
    if np.any(indices < 0) and all(is_number(text) for text in codes):
        return _to_integers(np.array([float(text) for text in codes])[inverse], source)
    if class_names is None:
        texts = [repr(text) for text in sorted(codes)]
        raise EnergyAlignError(
            f"{source} holds class names ({some_of(texts)}), but the columns of the logits have none. Write labels as "
            "class indices (0, 1, 2, ...), or name the columns with --classes NAMES."
        )
    _refuse_first(values, indices[inverse] < 0, source)
    return indices[inverse]


def _to_integers(values: NDArray[Any], source: str) -> NDArray[np.int64]:
    """Return `values` as int64; raise if that would change a value."""
    with np.errstate(invalid="ignore"):  # NaN and inf do not equal the integers they become
        integers: NDArray[np.int64] = values.astype(np.int64)
    _refuse_first(values, integers != values, source)
    return integers


def _refuse_first(values: NDArray[Any], bad: NDArray[np.bool_], source: str) -> None:
    """Raise an error about the first of the `bad` labels, if there is one."""
    if bad.any():
        position = int(np.argmax(bad))
        raise EnergyAlignError(
            f"{source}: label {str(values[position])!r} at position {position} (counted from 0) is neither a class "
            f"index nor a class name. {_REMEDY}"
        )
