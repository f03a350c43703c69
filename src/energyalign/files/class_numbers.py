"""A number for every class, with or without its name: counts and priors."""

from __future__ import annotations

import reprlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import is_number, reading, require_distinct, require_extension
from energyalign.files.csv import not_a_number, read_small
from energyalign.files.jsonfile import json_type, read_json
from energyalign.files.npy import read_vector_file

EXTENSIONS = (".npy", ".json", ".csv")


def read_numbers(path: Path) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Numbers that are finite and not negative, and the names that stand beside them."""
    names: tuple[str, ...] | None = None
    match require_extension(path, EXTENSIONS):
        case ".npy":
            values = read_vector_file(path)
            if values.dtype.kind not in "iuf":
                raise EnergyAlignError(f"{path} holds {values.dtype}, but numbers are expected: save numbers.")
            values = values.astype(np.float64)
        case ".json":
            names, values = _from_json(path)
        case _:
            names, values = _from_csv(path)
    if names is not None:
        require_distinct(names, str(path))
    if not len(values):
        raise EnergyAlignError(f"{path} holds no numbers: write one for each class.")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        where = f"position {first} (counted from 0)" if names is None else f"class {names[first]!r}"
        raise EnergyAlignError(f"{path}: {values[first]} for {where}, but a finite number >= 0 is expected.")
    return values, names


def _from_json(path: Path) -> tuple[tuple[str, ...] | None, NDArray[np.float64]]:
    content = read_json(path)
    if not isinstance(content, (list, dict)):
        raise EnergyAlignError(
            f"{path} holds a JSON {json_type(content)}, but a list of numbers or an object of name and "
            "number is expected."
        )
    names = tuple(content) if isinstance(content, dict) else None
    values = list(content.values()) if isinstance(content, dict) else content
    for where, value in zip(names or range(len(values)), values, strict=True):
        if type(value) not in (int, float):
            raise EnergyAlignError(f"{path}: {reprlib.repr(value)} for class {where!r} is not a number.")
    with reading(str(path), "a file of numbers"):  # an integer may be too large for any float
        return names, np.array(values, dtype=np.float64)


def _from_csv(path: Path) -> tuple[tuple[str, ...] | None, NDArray[np.float64]]:
    rows = list(read_small(path, most_columns=2))
    if _is_word(rows[0][1][-1]):
        del rows[0]
    for line, cells in rows:
        if not is_number(cells[-1]):
            raise EnergyAlignError(f"{path}, line {line}: {not_a_number(cells[-1])}")
    numbers = np.array([float(cells[-1]) for _, cells in rows])
    named = bool(rows) and len(rows[0][1]) == 2
    return (tuple(cells[0].strip() for _, cells in rows) if named else None), numbers


def _is_word(cell: str) -> bool:
    """Whether this is a column's name. A mistyped number has a digit in it and must not pass for one."""
    letters = any(character.isalpha() for character in cell)
    return letters and not any(character.isdigit() for character in cell) and not is_number(cell)
