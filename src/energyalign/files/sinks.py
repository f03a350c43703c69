"""The formats that a table of numbers is written in, each as a function that writes one block."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError
from energyalign.files.parquet import import_pyarrow

Write = Callable[[NDArray[Any]], object]


class Layout(NamedTuple):
    """What is known of a table before its first row; `n_columns` is None for a vector."""

    name: str
    n_rows: int
    n_columns: int | None
    dtype: np.dtype[Any]
    class_names: tuple[str, ...] | None

    def shape(self, n_rows: int) -> tuple[int, ...]:
        """The shape of `n_rows` rows."""
        return (n_rows,) if self.n_columns is None else (n_rows, self.n_columns)


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
    if layout.n_columns is None:
        raise EnergyAlignError(f"{layout.name}: labels are written as .npy or .csv, not as .parquet.")
    try:
        number = arrow.from_numpy_dtype(layout.dtype)
    except NotImplementedError as error:
        raise EnergyAlignError(f"{layout.name}: Parquet has no type for {layout.dtype}. Write .npy instead.") from error
    if layout.class_names is None:
        schema = arrow.schema([("logits", arrow.list_(number, layout.n_columns))])
    else:
        schema = arrow.schema([(name, number) for name in layout.class_names])

    def write(block: NDArray[Any]) -> None:
        if layout.class_names is None:
            columns = [arrow.FixedSizeListArray.from_arrays(block.ravel(), layout.n_columns)]
        else:
            columns = [arrow.array(column) for column in block.T]
        writer.write_batch(arrow.record_batch(columns, schema=schema))

    with arrow.parquet.ParquetWriter(stream, schema) as writer:
        yield write
