"""Logits and vectors in NumPy's .npy format, read in blocks of bounded size."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import as_two_classes, n_columns, to_rows
from energyalign.files.checks import (
    InputFile,
    native,
    reading,
    refuse_objects,
    require_logits,
    rows_per_block,
)

# The header of a plain array has about 100 bytes. NumPy would read a longer one to its end before it raises.
HEADER_BYTES = 10_000
KIND = "a .npy array"

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Header(NamedTuple):
    """The header of a .npy file, and the offset of its data."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int

    def check_length(self, size: int, name: str) -> None:
        """Refuse a file of `size` bytes if its header declares another size."""
        missing = self.offset + math.prod(self.shape) * self.dtype.itemsize - size
        if missing > 0:
            raise EnergyAlignError(
                f"{name} is truncated: {missing:,} bytes are missing for shape {self.shape} of {self.dtype}. Copy or "
                "write it again."
            )
        if missing < 0:
            raise EnergyAlignError(
                f"{name} has {-missing:,} bytes too many for shape {self.shape} of {self.dtype}. Save one array per "
                "file."
            )


def read_header(stream: IO[bytes], name: str) -> Header:
    """Read the header at the beginning of `stream`."""
    with reading(name, KIND):
        start = io.BytesIO(stream.read(HEADER_BYTES))
        version = np.lib.format.read_magic(start)
        if version not in _READERS:
            # Version 3 is for structured arrays with Unicode field names, which are not logits.
            raise EnergyAlignError(
                f"{name} has .npy format version {version[0]}.{version[1]}: save a plain array of numbers."
            )
        try:
            shape, fortran_order, dtype = _READERS[version](start, max_header_size=HEADER_BYTES)
        except MemoryError as error:  # raised by Python's parser: the header is at most a few kilobytes
            raise ValueError("its header is nested too deeply") from error
    return Header(shape, fortran_order, dtype, start.tell())


def read_vector(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read a whole one-dimensional array from a stream of `size` bytes."""
    header = read_header(stream, name)
    if len(header.shape) != 1 and not header.dtype.hasobject:
        raise EnergyAlignError(f"{name} must have one dimension, got shape {header.shape}: ravel it.")
    stream.seek(0)
    return read_array(stream, size, name)


def read_array(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read a whole array from a stream of `size` bytes."""
    header = read_header(stream, name)
    refuse_objects(header.dtype, name)
    if not header.dtype.itemsize:
        raise EnergyAlignError(f"{name} must hold numbers, got the empty type {header.dtype}.")
    header.check_length(size, name)
    with reading(name, KIND):
        stream.seek(0)
        values = np.lib.format.read_array(stream, allow_pickle=False, max_header_size=HEADER_BYTES)
        return values.astype(native(values.dtype), copy=False)


def read_array_file(path: Path) -> NDArray[Any]:
    """Read a whole .npy file of any shape."""
    file = InputFile(path, str(path), KIND)
    with file.open() as stream:
        return read_array(stream, file.size, str(path))


def read_vector_file(path: Path) -> NDArray[Any]:
    """Read a whole .npy file of one dimension."""
    file = InputFile(path, str(path), KIND)
    with file.open() as stream:
        return read_vector(stream, file.size, str(path))


class NpyShard:
    """A .npy file of logits, of any head: see `energyalign.core.heads`.

    Blocks are read, not memory-mapped: accessing the map of a file that has been truncated kills the process (SIGBUS).
    """

    class_names = None

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._file = InputFile(path, name, KIND)
        with self._file.open() as stream:
            self._header = read_header(stream, name)
        shape = self._header.shape
        require_logits(shape, self._header.dtype, name, any_head=True)
        self._header.check_length(self._file.size, name)
        if self._header.fortran_order and len(shape) > 2:
            raise EnergyAlignError(f"{name} is in Fortran order: save np.ascontiguousarray(x).")
        self.sample_shape = shape[1:]
        # As stored: one row of numbers per sample.
        self._header = self._header._replace(shape=(shape[0], math.prod(self.sample_shape)))
        self.n_positions = self._header.shape[1] // n_columns(shape)
        self._first_sample, self._n_samples = 0, shape[0]
        self.n_classes = max(2, n_columns(shape))
        self.dtype = native(self._header.dtype)

    @property
    def n_rows(self) -> int:
        """Number of samples, tokens or pixels."""
        return self._n_samples * self.n_positions

    def cut(self, max_rows: int) -> list[Self]:
        """Split into shards of at most `max_rows` rows and at least one sample."""
        step = max(1, max_rows // self.n_positions)
        return [self._some_samples(first, step) for first in range(0, self._n_samples, step)]

    def _some_samples(self, first: int, max_samples: int) -> Self:
        some = copy.copy(self)
        some._first_sample = self._first_sample + first
        some._n_samples = min(max_samples, self._n_samples - first)
        return some

    def read_labels(self) -> None:
        """Return None: a .npy file holds one array."""

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows from first to last, in blocks that may be read-only."""
        return map(_as_rows, self.sample_blocks())  # map, unlike a generator, keeps no reference to the last block

    def sample_blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the samples from first to last, in the shape of the file."""
        window = self._columns if self._header.fortran_order else self._rows
        step = rows_per_block(self._header.shape[1], self.dtype)
        with self._file.open() as stream:
            for first in range(0, self._n_samples, step):
                block = window(stream, self._first_sample + first, min(step, self._n_samples - first))
                yield np.require(block, self.dtype, ["C", "ALIGNED", "ENSUREARRAY"]).reshape(-1, *self.sample_shape)

    def _rows(self, stream: io.BufferedReader, first: int, count: int) -> NDArray[np.floating]:
        """Read rows of a C-ordered file."""
        block: NDArray[np.floating] = np.empty((count, self._header.shape[1]), self._header.dtype)
        stream.seek(self._header.offset + first * self._header.shape[1] * self.dtype.itemsize)
        if stream.readinto(block.reshape(-1).view(np.uint8).data) != block.nbytes:
            raise EOFError("unexpected end of file")
        return block

    def _columns(self, stream: io.BufferedReader, first: int, count: int) -> NDArray[np.floating]:
        """Read rows of a Fortran-ordered file, column by column."""
        block = np.empty((count, self._header.shape[1]), dtype=self.dtype)
        for column in range(self._header.shape[1]):
            stream.seek(self._header.offset + (column * self._header.shape[0] + first) * self.dtype.itemsize)
            stretch = stream.read(count * self.dtype.itemsize)
            block[:, column] = np.frombuffer(stretch, dtype=self._header.dtype, count=count)
        return block


def _as_rows(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    rows = to_rows(samples)
    return np.ascontiguousarray(as_two_classes(rows) if rows.shape[1] == 1 else rows)
