"""Write logits or labels to a file, atomically."""

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
from energyalign.files.spool import DASH

STDOUT = "standard output"
_WRITE_BYTES = 2**20  # the page cache takes 16 MB at once five times longer (Linux 6, ext4)

Write = Callable[[NDArray[Any]], object]


class Layout(NamedTuple):
    """Name, shape and type of the array to write."""

    name: str
    n_rows: int
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    class_names: tuple[str, ...] | None

    def shape(self, n_rows: int) -> tuple[int, ...]:
        """Return the shape of `n_rows` rows."""
        return (n_rows, *self.row_shape)

    def require_table(self) -> None:
        """Raise if there are more than two dimensions."""
        if len(self.row_shape) > 1:
            raise EnergyAlignError(
                f"{self.name}: an array of shape {self.shape(self.n_rows)} can only be written to a .npy file."
            )


@contextlib.contextmanager
def npy_sink(stream: IO[bytes], layout: Layout) -> Iterator[Write]:
    """Write the header, then rows as they come."""
    descr = np.lib.format.dtype_to_descr(layout.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": layout.shape(layout.n_rows)}
    np.lib.format.write_array_header_1_0(stream, header)

    def write(block: NDArray[Any]) -> None:
        content = block.reshape(-1).view(np.uint8)
        for start in range(0, len(content), _WRITE_BYTES):
            stream.write(content[start : start + _WRITE_BYTES].data)

    yield write


@contextlib.contextmanager
def csv_sink(stream: IO[str], layout: Layout) -> Iterator[Write]:
    """Write a header if the classes have names; write numbers in the fewest digits that restore them exactly."""
    layout.require_table()
    writer = csv.writer(stream, lineterminator="\n")
    if layout.class_names is not None:
        writer.writerow(layout.class_names)

    def write(block: NDArray[Any]) -> None:
        # Row by row: as text, a whole block would take many times its memory.
        writer.writerows(np.atleast_1d(row).astype(str) for row in block)

    yield write


@contextlib.contextmanager
def parquet_sink(stream: IO[bytes], layout: Layout) -> Iterator[Write]:
    """Write a column per named class, or one column ``logits`` of lists of fixed length."""
    from energyalign.files.parquet import import_pyarrow

    arrow = import_pyarrow(layout.name)
    layout.require_table()
    if not layout.row_shape:
        raise EnergyAlignError(f"{layout.name}: labels can only be written to a .npy or .csv file.")
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
    """Writes blocks of rows in order, and counts the rows."""

    def __init__(self, write: Write, layout: Layout) -> None:
        self._write = write
        self._layout = layout
        self._n_written = 0

    def write(self, block: NDArray[Any]) -> None:
        """Write the next rows."""
        layout = self._layout
        if block.shape != layout.shape(len(block)):
            raise EnergyAlignError(
                f"{layout.name}: expected blocks of an array of shape {layout.shape(layout.n_rows)}, got shape "
                f"{block.shape}."
            )
        if self._n_written + len(block) > layout.n_rows:
            raise EnergyAlignError(f"{layout.name}: expected {layout.n_rows} rows, got more.")
        self._write(np.require(block.astype(layout.dtype, casting="same_kind", copy=False), requirements="C"))
        self._n_written += len(block)

    def check_complete(self) -> None:
        """Raise if rows are missing."""
        if self._n_written != self._layout.n_rows:
            raise EnergyAlignError(
                f"{self._layout.name}: expected {self._layout.n_rows} rows, got {self._n_written}. No file was written."
            )


@contextlib.contextmanager
def matrix_writer(
    target: str | Path,
    n_rows: int,
    n_columns: int | tuple[int, ...] | None,
    dtype: DTypeLike,
    class_names: Sequence[str] | None = None,
) -> Iterator[MatrixWriter]:
    """Open a file to write `n_rows` rows, block by block.

    The file is created or replaced when the context ends and all rows are written. After a failure nothing has
    changed, except that rows may have been sent to standard output.

    Parameters
    ----------
    target : str or Path
        A file in .npy, .csv or .parquet format; ``-`` is .npy to standard output.
    n_rows : int
    n_columns : int, tuple of int, or None
        None for a vector, such as predicted labels (.npy and .csv only); a tuple is the shape of one sample (.npy).
    dtype : dtype
        Blocks are converted to this type within their kind (float64 to float32, not float to int).
    class_names : sequence of str, default=None
        Header of a .csv file, or columns of a .parquet file. Ignored for .npy.

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
        raise EnergyAlignError(f"{layout.name}: expected {n_columns} class names, got {len(names)}.")
    file = _standard_output() if to_stdout else atomic_write(target, mode)
    with file as stream, sink(stream, layout) as write:
        writer = MatrixWriter(write, layout)
        yield writer
        writer.check_complete()


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.stdout is None or sys.stdout.closed:
        raise EnergyAlignError(f"{STDOUT} is closed: give a file instead of `-`.")
    if sys.stdout.isatty():
        raise EnergyAlignError("cannot write .npy to a terminal: give a file instead of `-`, or use a pipe.")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        raise EnergyAlignError(f"cannot write to {STDOUT}: {error.strerror or error}.") from error
