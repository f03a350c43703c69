"""Logits in a Parquet file: a column for each class, or one column of lists."""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.files.checks import (
    BLOCK_BYTES,
    InputFile,
    label_column,
    require_distinct,
    require_logits,
    rows_per_block,
)
from energyalign.files.parquet_trial import require_plausible_sizes

KIND = "a .parquet file"


def import_pyarrow(name: str) -> Any:
    """Import and return pyarrow; raise an error that says how to install it."""
    try:
        importlib.import_module("pyarrow.compute")
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise EnergyAlignError(
            f"{name} needs pyarrow, which is not installed: pip install 'energyalign[parquet]'."
        ) from error


class ParquetShard:
    """A .parquet file of logits.

    The logits are in the list column `key` (default ``logits``), and other columns are ignored; or else in one
    floating column per class, with no other column but the labels.
    """

    def __init__(self, path: Path, name: str, key: str | None) -> None:
        self.name = name
        self._file = InputFile(path, name, KIND)
        with self._open() as file:
            schema = file.schema_arrow
            self.n_rows: int = file.metadata.num_rows
            self._group_rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            self._label = label_column(schema.names, name)
            self._lists = _list_column(self._arrow, schema, name, key)
            types, self._columns = self._layout(schema)
            # float16, the narrowest type, changes no result; it is the dtype if there are no columns.
            self.dtype: np.dtype[Any] = np.result_type(np.float16, *(f"f{one.bit_width // 8}" for one in types))
            wanted = [*self._columns, *([] if self._label is None else [self._label])]
            require_plausible_sizes(file, path, name, wanted)
            self.n_classes = self._list_length(file) if self._lists else len(self._columns)
        self.class_names = None if self._lists else tuple(self._columns)
        require_logits((self.n_rows, self.n_classes), self.dtype, name)
        self._groups = range(len(self._group_rows))
        self._first_row = 0

    @property
    def _arrow(self) -> Any:
        """The pyarrow module. Not stored, because a module cannot be pickled with the shard."""
        return import_pyarrow(self.name)

    def cut(self, max_rows: int) -> list[Self]:
        """Split into shards of whole row groups, with at most `max_rows` rows if the groups are small enough."""
        pieces: list[Self] = []
        first = 0
        for group, n_rows in enumerate(self._group_rows):
            if pieces and pieces[-1].n_rows + n_rows <= max_rows:
                pieces[-1]._groups = range(pieces[-1]._groups.start, group + 1)
                pieces[-1].n_rows += n_rows
            else:
                piece = copy.copy(self)
                piece._groups, piece._first_row, piece.n_rows = range(group, group + 1), first, n_rows
                pieces.append(piece)
            first += n_rows
        return pieces

    def read_labels(self) -> NDArray[Any] | None:
        """Return the column ``label`` or ``labels``, if there is one."""
        if self._label is None:
            return None
        parts = []
        with self._open([self._label]) as file:
            for first, batch in self._batches(file, BLOCK_BYTES // 8, [self._label]):
                column = batch.column(self._label)
                self._refuse_null(column, first, self._label)
                if self._arrow.types.is_dictionary(column.type):
                    # One object per distinct text, however many rows have it.
                    texts = column.dictionary.to_numpy(zero_copy_only=False)
                    parts.append(texts[column.indices.to_numpy(zero_copy_only=False)])
                else:
                    parts.append(column.to_numpy(zero_copy_only=False))
            return np.concatenate(parts)

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows from first to last."""
        block_of = self._from_lists if self._lists else self._from_columns
        with self._open() as file:
            for first, batch in self._batches(file, rows_per_block(self.n_classes, self.dtype), self._columns):
                yield block_of(batch, first)

    @contextlib.contextmanager
    def _open(self, as_dictionaries: Sequence[str] = ()) -> Iterator[Any]:
        # Without pre-buffering and with a small buffer, a column is read page by page; otherwise a whole row
        # group, which may be the whole file, is loaded at once.
        with (
            self._file.open() as stream,
            self._arrow.parquet.ParquetFile(
                stream, pre_buffer=False, buffer_size=2**14, read_dictionary=list(as_dictionaries)
            ) as file,
        ):
            yield file

    def _batches(self, file: Any, n_rows: int, columns: list[str]) -> Iterator[tuple[int, Any]]:
        """Yield record batches, each with the index of its first row."""
        first = self._first_row
        for batch in file.iter_batches(batch_size=n_rows, row_groups=list(self._groups), columns=columns):
            yield first, batch
            first += batch.num_rows

    def _layout(self, schema: Any) -> tuple[list[Any], list[str]]:
        """Return the columns that hold logits, and their types."""
        if self._lists:
            columns, types = [self._lists], [schema.field(self._lists).type.value_type]
        else:
            require_distinct(schema.names, self.name)
            columns = [one for one in schema.names if one != self._label]
            types = [schema.field(one).type for one in columns]
        pairs = zip(columns, types, strict=True)
        others = [f"{column} ({kind})" for column, kind in pairs if not self._arrow.types.is_floating(kind)]
        if others:
            raise EnergyAlignError(
                f"{self.name} has columns that are not floating point: {some_of(others)}. Keep one floating column per "
                "class (and `label`), or put the logits into one list column named `logits`."
            )
        return types, columns

    def _list_length(self, file: Any) -> int:
        """Return the number of classes: the size of the lists, or of the first list if sizes are not fixed."""
        kind = file.schema_arrow.field(self._lists).type
        if self._arrow.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        for batch in file.iter_batches(batch_size=1, columns=[self._lists]):
            self._refuse_null(batch.column(0), 0, self._columns[0])
            return len(batch.column(0)[0])
        return 0

    def _from_columns(self, batch: Any, first: int) -> NDArray[np.floating]:
        block = np.empty((batch.num_rows, self.n_classes), dtype=self.dtype)
        for index, name in enumerate(self._columns):
            column = batch.column(name)
            self._refuse_null(column, first, name)
            block[:, index] = column.to_numpy(zero_copy_only=False)
        return block

    def _from_lists(self, batch: Any, first: int) -> NDArray[np.floating]:
        column = batch.column(0)
        self._refuse_null(column, first, self._columns[0])
        lengths = self._arrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if (lengths != self.n_classes).any():
            row = int(np.argmax(lengths != self.n_classes))
            raise EnergyAlignError(
                f"{self.name}, row {first + row} (counted from 0): expected {self.n_classes} logits as in the first "
                f"row, got {lengths[row]}."
            )
        values = column.flatten()
        self._refuse_null(values, first, self._columns[0], per_row=self.n_classes)
        block: NDArray[np.floating] = values.to_numpy(zero_copy_only=False)
        return block.reshape(batch.num_rows, self.n_classes)

    def _refuse_null(self, values: Any, first: int, column: str, per_row: int = 1) -> None:
        if values.null_count:
            row = first + int(np.argmax(values.is_null())) // per_row
            raise EnergyAlignError(
                f"{self.name}, row {row} (counted from 0): column {column!r} is null. Fill it in or drop the row."
            )


def _list_column(arrow: Any, schema: Any, name: str, key: str | None) -> str | None:
    """Return the list column that holds all logits of a row; None if there is none."""
    wanted = "logits" if key is None else key
    kind = schema.field(wanted).type if schema.names.count(wanted) == 1 else None
    is_list = kind is not None and (
        arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)
    )
    if key is not None and not is_list:
        raise EnergyAlignError(f"{name} has no list column {key!r}; its columns: {some_of(schema.names)}.")
    return wanted if is_list else None
