"""Logits streamed from a NumPy .npz archive, compressed or not."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.files.checks import (
    InputFile,
    label_column,
    native,
    reading,
    refuse_bomb,
    require_logits,
    rows_per_block,
)
from energyalign.files.npy import Header, NpyShard, read_array, read_header, read_vector
from energyalign.files.spool import Spool

KIND = "a .npz archive"


class NpzShard:
    """One member of a .npz archive.

    The member is the one named `key`, else ``logits``, else the only two-dimensional floating array. A member in
    Fortran order is first copied to a temporary file: its rows are scattered over the stream, which can only be read
    from front to back.
    """

    class_names = None

    def __init__(self, path: Path, name: str, key: str | None) -> None:
        self.name = name
        self._file = InputFile(path, name, KIND)
        with self._file.open() as stream, zipfile.ZipFile(stream) as archive:
            members = [one.removesuffix(".npy") for one in archive.namelist() if one.endswith(".npy")]
            self._key = _choose(archive, members, name, key)
            self._header = _header(archive, self._key, name)
            size = archive.getinfo(f"{self._key}.npy").file_size
        self._source = _member_name(name, self._key)
        require_logits(self._header.shape, self._header.dtype, self._source)
        self._header.check_length(size, self._source)
        refuse_bomb(self._header.shape[1] * self._header.dtype.itemsize, self._file.size, f"a row of {self._source}")
        self._label_key = label_column([one for one in members if one != self._key], name)
        self._copy: Spool | None = None
        self.n_rows, self.n_classes = self._header.shape
        self.dtype = native(self._header.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_copy": None}  # a temporary file belongs to the process that created it

    def cut(self, max_rows: int) -> list[Self]:  # noqa: ARG002
        """Return the whole shard: compressed data can only be read from the beginning."""
        return [self]

    def read_labels(self) -> NDArray[Any] | None:
        """Return the member ``label`` or ``labels``, if there is one."""
        if self._label_key is None:
            return None
        with self._member(self._label_key) as (stream, size):
            refuse_bomb(size, self._file.size, _member_name(self.name, self._label_key))
            return read_vector(stream, size, _member_name(self.name, self._label_key))

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows from first to last, in blocks that may be read-only."""
        return self._blocks_of_copy() if self._header.fortran_order else self._blocks_of_stream()

    @contextlib.contextmanager
    def _member(self, key: str) -> Iterator[tuple[IO[bytes], int]]:
        """Open a member; yields the stream and its length."""
        name = _member_name(self.name, key)
        with self._file.open() as file, reading(name, KIND), zipfile.ZipFile(file) as archive:
            info = archive.getinfo(f"{key}.npy")
            with archive.open(info) as stream:
                yield stream, info.file_size

    def _blocks_of_stream(self) -> Iterator[NDArray[np.floating]]:
        step = rows_per_block(self.n_classes, self.dtype)
        with self._member(self._key) as (stream, _):
            stream.read(self._header.offset)
            for first in range(0, self.n_rows, step):
                count = min(step, self.n_rows - first) * self.n_classes
                data = stream.read(count * self.dtype.itemsize)
                block = np.frombuffer(data, dtype=self._header.dtype, count=count)
                yield block.reshape(-1, self.n_classes).astype(self.dtype, copy=False)

    def _blocks_of_copy(self) -> Iterator[NDArray[np.floating]]:
        if self._copy is None:
            with self._member(self._key) as (stream, _):
                self._copy = Spool(stream, self._source, KIND)
        yield from NpyShard(self._copy.path, self._source).blocks()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of an archive, by name."""
    name = str(path)
    file = InputFile(path, name, KIND)
    arrays = {}
    with file.open() as whole, zipfile.ZipFile(whole) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        refuse_bomb(sum(info.file_size for info in members), file.size, name)
        for info in members:
            key = info.filename.removesuffix(".npy")
            with archive.open(info) as stream:
                arrays[key] = read_array(stream, info.file_size, _member_name(name, key))
    return arrays


def _choose(archive: zipfile.ZipFile, members: list[str], name: str, key: str | None) -> str:
    """Return the name of the member that holds the logits."""
    if key is not None:
        if key not in members:
            raise EnergyAlignError(f"{name} has no array {key!r}: choose one of {some_of(members) or 'none'}.")
        return key
    if "logits" in members:
        return "logits"
    headers = {member: _header(archive, member, name) for member in members}
    candidates = [one for one, header in headers.items() if len(header.shape) == 2 and header.dtype.kind == "f"]
    if len(candidates) != 1:
        raise EnergyAlignError(
            f"{name} must have an array named logits, or a single two-dimensional floating array, got "
            f"{some_of(members) or 'none'}: choose one by its key (--key)."
        )
    return candidates[0]


def _header(archive: zipfile.ZipFile, member: str, name: str) -> Header:
    with archive.open(f"{member}.npy") as stream:
        return read_header(stream, _member_name(name, member))


def _member_name(name: str, key: str) -> str:
    return f"{name}[{key!r}]"
