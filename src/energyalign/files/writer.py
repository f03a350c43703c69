"""Corrected logits and predicted labels into a file that is either whole or not there."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import native, require_extension
from energyalign.files.parquet import import_pyarrow
from energyalign.files.spool import DASH

STDOUT = "standard output"

Write = Callable[[NDArray[Any]], object]


class Layout(NamedTuple):
    """What is known of an array before its first row: one number or class a row, or of another shape."""

    name: str
    n_rows: int
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    class_names: tuple[str, ...] | None

    def shape(self, n_rows: int) -> tuple[int, ...]:
        """The shape of `n_rows` rows."""
        return (n_rows, *self.row_shape)

    def refuse_more_than_a_table(self) -> None:
        """Formats of rows and columns have no place for more."""
        if len(self.row_shape) > 1:
            raise EnergyAlignError(f"{self.name}: an array of shape {self.shape(self.n_rows)} is written as .npy only.")


@contextlib.contextmanager
def npy_sink(stream: IO[bytes], layout: Layout) -> Iterator[Write]:
    """The header first, then the rows as they come."""
    descr = np.lib.format.dtype_to_descr(layout.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": layout.shape(layout.n_rows)}
    np.lib.format.write_array_header_1_0(stream, header)
    yield lambda block: stream.write(block.data)


@contextlib.contextmanager
def csv_sink(stream: IO[str], layout: Layout) -> Iterator[Write]:
    """A header if the classes have names; numbers in the fewest digits that give them back exactly."""
    layout.refuse_more_than_a_table()
    writer = csv.writer(stream, lineterminator="\n")
    if layout.class_names is not None:
        writer.writerow(layout.class_names)

    def write(block: NDArray[Any]) -> None:
        # Row by row: as text, a whole block would take many times its size.
        writer.writerows(np.atleast_1d(row).astype(str) for row in block)

    yield write


@contextlib.contextmanager
def parquet_sink(stream: IO[bytes], layout: Layout) -> Iterator[Write]:
    """A column for each named class, or one column ``logits`` of lists of fixed length."""
    arrow = import_pyarrow(layout.name)
    layout.refuse_more_than_a_table()
    if not layout.row_shape:
        raise EnergyAlignError(f"{layout.name}: labels are written as .npy or .csv, not as .parquet.")
    try:
        number = arrow.from_numpy_dtype(layout.dtype)
    except NotImplementedError as error:
        raise EnergyAlignError(f"{layout.name}: Parquet has no type for {layout.dtype}. Write .npy instead.") from error
    if layout.class_names is None:
        schema = arrow.schema([("logits", arrow.list_(number, layout.row_shape[0]))])
    else:
        schema = arrow.schema([(name, number) for name in layout.class_names])

    def write(block: NDArray[Any]) -> None:
        if layout.class_names is None:
            columns = [arrow.FixedSizeListArray.from_arrays(block.ravel(), layout.row_shape[0])]
        else:
            columns = [arrow.array(column) for column in block.T]
        writer.write_batch(arrow.record_batch(columns, schema=schema))

    with arrow.parquet.ParquetWriter(stream, schema) as writer:
        yield write


_Sink = Callable[[IO[Any], Layout], AbstractContextManager[Write]]
_SINKS: dict[str, tuple[_Sink, str]] = {
    ".npy": (npy_sink, "wb"),
    ".csv": (csv_sink, "w"),
    ".parquet": (parquet_sink, "wb"),
}


class MatrixWriter:
    """Takes blocks of rows, in order, until there are as many as were announced."""

    def __init__(self, write: Write, layout: Layout) -> None:
        self._write = write
        self._layout = layout
        self._n_written = 0

    def write(self, block: NDArray[Any]) -> None:
        """Write the next rows."""
        layout = self._layout
        if block.shape != layout.shape(len(block)):
            raise EnergyAlignError(
                f"{layout.name}: a block of shape {block.shape} was given for a table of shape "
                f"{layout.shape(layout.n_rows)}."
            )
        if self._n_written + len(block) > layout.n_rows:
            raise EnergyAlignError(f"{layout.name}: more than the {layout.n_rows} rows announced were written.")
        self._write(np.require(block.astype(layout.dtype, casting="same_kind", copy=False), requirements="C"))
        self._n_written += len(block)

    def check_complete(self) -> None:
        """Refuse to end before all rows are there."""
        if self._n_written != self._layout.n_rows:
            raise EnergyAlignError(
                f"{self._layout.name}: only {self._n_written} of {self._layout.n_rows} rows were written. "
                "The file was not made."
            )


@contextlib.contextmanager
def matrix_writer(
    target: str | Path,
    n_rows: int,
    n_columns: int | tuple[int, ...] | None,
    dtype: DTypeLike,
    class_names: Sequence[str] | None = None,
) -> Iterator[MatrixWriter]:
    """Open a file for `n_rows` rows that are given block by block.

    A file appears, or replaces an older one, when the context ends and all rows are there; after any failure
    everything is as it was. What was sent to standard output cannot be taken back.

    Parameters
    ----------
    target : str or Path
        A file in .npy, .csv or .parquet format; ``-`` is .npy to standard output.
    n_rows : int
    n_columns : int, tuple of int, or None
        None for a vector, such as predicted labels (.npy and .csv only); a tuple is the shape of one sample (.npy).
    dtype : dtype
        Blocks are converted to it within their kind (float64 to float32, not float to int).
    class_names : sequence of str, optional
        The header of a .csv and the columns of a .parquet file. A .npy file has no place for them.

    Yields
    ------
    MatrixWriter
    """
    to_stdout = str(target) == DASH
    sink, mode = _SINKS[".npy" if to_stdout else require_extension(Path(target), _SINKS)]
    names = None if class_names is None else tuple(class_names)
    row_shape = n_columns if isinstance(n_columns, tuple) else () if n_columns is None else (n_columns,)
    layout = Layout(STDOUT if to_stdout else str(target), n_rows, row_shape, native(np.dtype(dtype)), names)
    if names is not None and (len(names),) != row_shape:
        raise EnergyAlignError(f"{layout.name}: {len(names)} class names for {n_columns} columns.")
    file = _standard_output() if to_stdout else atomic_write(target, mode)
    with file as stream, sink(stream, layout) as write:
        writer = MatrixWriter(write, layout)
        yield writer
        writer.check_complete()


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.stdout is None or sys.stdout.closed:
        raise EnergyAlignError(f"{STDOUT} is closed: name a file instead of `-`.")
    if sys.stdout.isatty():
        raise EnergyAlignError(f"{STDOUT} is a terminal, and .npy is no text: name a file, or pipe it on.")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        raise EnergyAlignError(f"cannot write to {STDOUT}: {error.strerror or error}.") from error
