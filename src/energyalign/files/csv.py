"""Logits in a .csv file: comma-separated, one row per sample, with or without a header."""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import (
    InputFile,
    is_number,
    label_column,
    require_distinct,
    require_logits,
    rows_per_block,
)

KIND = "a .csv file in UTF-8"
# Enough for a million classes. A longer line would be read into memory, and means that the file is not text.
LINE_CHARACTERS = 2**25
LINE_CELLS = 2**21  # each cell takes about 60 bytes, however short it is


def records(file: InputFile) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row; refuse rows of different lengths and empty lines."""
    name, width, blank, line = file.name, 0, 0, 0

    def one_line_per_row(stream: TextIO) -> Iterator[str]:
        for number, text in enumerate(_lines(stream, name), 1):
            if number > line + 1:  # otherwise an open quotation mark would load all following lines
                raise EnergyAlignError(
                    f"{name}, line {number - 1}: a quotation mark is not closed. Close it; cells cannot span lines."
                )
            yield text

    with file.open() as stream, TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(one_line_per_row(text), strict=True)
        for cells in reader:
            line = reader.line_num
            if not cells:
                blank = blank or line
                continue
            if blank:
                raise EnergyAlignError(f"{name}, line {blank} is empty: fill it in or remove it.")
            width = width or len(cells)
            if len(cells) != width:
                raise EnergyAlignError(
                    f"{name}, line {line}: expected {width} comma-separated cells as in the first line, got "
                    f"{len(cells)}."
                )
            yield line, cells


def _lines(stream: TextIO, name: str) -> Iterator[str]:
    while line := stream.readline(LINE_CHARACTERS):
        if len(line) == LINE_CHARACTERS:
            raise EnergyAlignError(
                f"lines of {name} must have at most {LINE_CHARACTERS:,} characters: is it a text file?"
            )
        if line.count(",") >= LINE_CELLS:
            raise EnergyAlignError(f"lines of {name} must have at most {LINE_CELLS:,} cells: save it as .npy.")
        yield line


def read_small(path: Path, max_columns: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row of a file with at most `max_columns` columns."""
    rows = records(InputFile(path, str(path), KIND))
    first = list(itertools.islice(rows, 1))
    width = len(first[0][1]) if first else 0
    if not 1 <= width <= max_columns:
        expected = "one column" if max_columns == 1 else f"1 to {max_columns} columns, separated by commas"
        raise EnergyAlignError(
            f"{path} must have {expected}, got {width}. If pandas wrote its index too, use index=False."
        )
    return itertools.chain(first, rows)


def text_array(cells: Iterable[str]) -> NDArray[Any]:
    """Return an object array that shares equal texts; a string array would pad all to the longest."""
    return np.array([sys.intern(cell.strip()) for cell in cells], dtype=object)


def is_header(cells: Sequence[str], name: str) -> bool:
    """Return whether the first row names the columns.

    Integers may be class names as well as logits. A row of integers alone is a header if it is 0, 1, 2, ..., which
    pandas writes for unnamed columns, and not a header if a number is repeated. Other rows of integers are refused.
    """
    cells = [cell.strip() for cell in cells]
    words = [cell for cell in cells if not is_number(cell)]
    whole = [cell for cell in cells if cell.isdecimal()]
    if len(whole) == len(cells):
        if cells == [str(index) for index in range(len(cells))]:
            return True
        if len(set(cells)) == len(cells) > 1:
            raise EnergyAlignError(
                f"{name}, line 1 has only integers, which may be class names or logits. Write logits with a decimal "
                "point (1.0), or name the classes with words."
            )
    if words and len(words) + len(whole) < len(cells):
        raise EnergyAlignError(
            f"{name}, line 1 mixes numbers and text ({words[0]!r}): it must be a header or a row of logits. Correct "
            "the cell, or name every column."
        )
    return bool(words)


class CsvShard:
    """A .csv file of logits. Numbers are read as float64; a column ``label`` or ``labels`` holds labels."""

    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._file = InputFile(path, name, KIND)
        rows = records(self._file)
        _, first = next(rows, (0, []))
        self._has_header = is_header(first, name)
        self.class_names: tuple[str, ...] | None = None
        self._label: int | None = None
        if self._has_header:
            header = [cell.strip() for cell in first]
            require_distinct(header, name)
            label = label_column(header, name)
            self._label = None if label is None else header.index(label)
            self.class_names = tuple(cell for index, cell in enumerate(header) if index != self._label)
        self.n_classes = len(first) if self.class_names is None else len(self.class_names)
        # Count the rows by reading the file once; cells are not converted.
        self.n_rows = sum(1 for _ in rows) + (not self._has_header)
        require_logits((self.n_rows, self.n_classes), self.dtype, name)

    def cut(self, max_rows: int) -> list[Self]:  # noqa: ARG002
        """Return the whole shard: to find a row, all rows before it must be read."""
        return [self]

    def read_labels(self) -> NDArray[Any] | None:
        """Return the column ``label`` or ``labels`` as text, if there is one."""
        if self._label is None:
            return None
        return text_array(cells[self._label] for _, cells in self._data())

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows from first to last."""
        rows = (self._numbers(line, cells) for line, cells in self._data())
        step = rows_per_block(self.n_classes, self.dtype)
        while some := list(itertools.islice(rows, step)):
            yield np.stack(some)

    def _data(self) -> Iterator[tuple[int, list[str]]]:
        return itertools.islice(records(self._file), int(self._has_header), None)

    def _numbers(self, line: int, cells: list[str]) -> NDArray[np.float64]:
        if self._label is not None:
            del cells[self._label]
        try:
            return np.array([float(cell) for cell in cells])
        except ValueError:
            bad = next(cell for cell in cells if not is_number(cell))
            raise EnergyAlignError(f"{self.name}, line {line}: {not_a_number(bad)}") from None


def not_a_number(cell: str) -> str:
    """Return the message for a cell that is not a number."""
    if not cell.strip():
        return "a cell is empty. Write a number into it, or drop the row."
    return f"expected a number, got {cell[:40]!r}. Separate cells with commas, and write decimals with a point."
