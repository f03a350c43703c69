"""One or many files of logits as one table, streamed as often as needed."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from energyalign.core._engine.forks import cached_property
from energyalign.core.errors import EnergyAlignError, count_of, some_of
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.names import order_by_name
from energyalign.core.shifts import Shifts
from energyalign.files.checks import require_extension
from energyalign.files.csv import CsvShard
from energyalign.files.npy import NpyShard
from energyalign.files.npz import NpzShard
from energyalign.files.parquet import ParquetShard
from energyalign.files.spool import DASH, STDIN, Spool, spool_stdin
from energyalign.files.vectors import label_indices

EXTENSIONS = (".npy", ".npz", ".parquet", ".csv")

PART_BYTES = 16 * 2**20
MIN_ROWS = 256
MAX_SHARDS = 32  # per part: opening a small file takes as long as reading it


class Shard(Protocol):
    """One file of logits, checked but not read."""

    name: str
    n_classes: int

    @property
    def n_rows(self) -> int:
        """Number of rows of logits."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of the blocks."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the class columns, if the file has them."""

    def read_labels(self) -> NDArray[Any] | None:
        """Return the labels in the file, numbers or text; None if it has none."""

    def cut(self, max_rows: int) -> Sequence[Shard]:
        """Split into shards of at most `max_rows` rows, or more if the format cannot be read from the middle."""

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows from first to last, in blocks of bounded size."""


@dataclass(frozen=True)
class ShardPart:
    """Consecutive shards, or some rows of one, that can be sent to another process."""

    shards: tuple[Shard, ...]
    order: tuple[int, ...] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(shard.n_rows for shard in self.shards)

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows from first to last, in blocks of bounded size."""
        return blocks_of(self.shards, self.order)


class ShardSet:
    """Files of logits with the same classes, read one after another.

    Attributes
    ----------
    n_rows : int
        Number of rows in all shards: samples, tokens or pixels.
    n_classes : int
    dtype : numpy.dtype
        Type that holds the blocks of every shard without loss.
    class_names : tuple of str, or None
        From the headers of .csv and .parquet shards; None if no shard names its classes.
    """

    def __init__(self, shards: Sequence[Shard], spools: Sequence[Spool] = ()) -> None:
        self._shards = tuple(shards)
        self._spools = tuple(spools)  # keeps the temporary files alive
        self.n_rows = sum(shard.n_rows for shard in shards)
        self.n_classes = _require_same_number(shards)
        self.class_names = _require_same_names(shards)
        self._order: tuple[int, ...] | None = None
        self.dtype: np.dtype[Any] = np.result_type(*(shard.dtype for shard in shards))

    @cached_property
    def samples(self) -> NDArray[np.int64] | None:
        """Sample index of each row, if samples have several rows (tokens or pixels); else None."""
        positions = [getattr(shard, "n_positions", 1) for shard in self._shards]
        if max(positions) == 1:
            return None
        sizes = [np.full(shard.n_rows // n, n) for shard, n in zip(self._shards, positions, strict=True)]
        return np.repeat(np.arange(sum(map(len, sizes))), np.concatenate(sizes))

    @property
    def n_samples(self) -> int:
        """Number of samples in all shards."""
        return sum(shard.n_rows // getattr(shard, "n_positions", 1) for shard in self._shards)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample in the files."""
        shapes = {getattr(shard, "sample_shape", (shard.n_classes,)): shard.name for shard in self._shards}
        if len(shapes) > 1:
            (one, first), (other, second) = list(shapes.items())[:2]
            raise EnergyAlignError(
                f"samples of {second} have shape {other}, but samples of {first} have {one}: use one command for each."
            )
        return next(iter(shapes))

    def sample_blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield all samples, in the shape of the files."""
        for shard in self._shards:
            yield from shard.sample_blocks() if isinstance(shard, NpyShard) else blocks_of([shard], self._order)

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """Class index of every row if the shards hold labels, else None. Read on first access."""
        parts = [self._labels_of(shard) for shard in self._shards]
        known = [part for part in parts if part is not None]
        if known and len(known) < len(parts):
            without = [shard.name for shard, part in zip(self._shards, parts, strict=True) if part is None]
            raise EnergyAlignError(
                f"some shards have labels, but these have none: {some_of(without)}. Add labels to every shard, or give "
                "all labels in a separate file."
            )
        return np.concatenate(known) if known else None

    def _labels_of(self, shard: Shard) -> NDArray[np.int64] | None:
        values = shard.read_labels()
        if values is None:
            return None
        if len(values) != shard.n_rows:
            raise EnergyAlignError(
                f"{shard.name} has {count_of(len(values), 'label')} for {count_of(shard.n_rows, 'row')}: expected one "
                "label per row."
            )
        return label_indices(values, self.class_names, shard.name)

    def match_columns(self, shifts: Shifts | MultilabelShifts, source: str, whose: str) -> None:
        """Reorder the columns by name to match the shifts; raise if the classes differ.

        `source` and `whose` name these logits and the shifts in the message.
        """
        if self.n_classes != shifts.n_classes:
            raise EnergyAlignError(
                f"{source} has {self.n_classes} class columns, but {whose} is for {shifts.n_classes} classes."
            )
        if self.class_names is not None and shifts.class_names is not None and self.class_names != shifts.class_names:
            order = order_by_name(self.class_names, shifts.class_names, source, f"those of {whose}")
            self._order, self.class_names = tuple(order.tolist()), shifts.class_names

    def place_of(self, row: int) -> str:
        """Return the file and row of a row of the table, for a message."""
        for shard in self._shards:
            if row < shard.n_rows:
                return f"row {row} of {shard.name}"
            row -= shard.n_rows
        raise IndexError(f"there is no row {row} beyond the last shard")

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield all rows, from the first row of the first shard to the last row of the last.

        Yields
        ------
        numpy.ndarray of shape (n, n_classes)
            At most about 16 MB, C-contiguous, in the shard's own floating type and native byte order. It may
            be read-only.
        """
        return blocks_of(self._shards, self._order)

    def parts(self) -> tuple[ShardPart, ...]:
        """Split the rows into parts for evidence. The split depends only on the files, not on who reads the parts."""
        row_bytes = self.n_classes * self.dtype.itemsize
        # A pass returns a few numbers per class and part: much less than the part itself only if that has many rows.
        max_rows = max(MIN_ROWS, PART_BYTES // row_bytes)
        parts: list[ShardPart] = []
        shards: list[Shard] = []
        rows = 0
        for piece in (piece for shard in self._shards for piece in shard.cut(max_rows)):
            if shards and (rows + piece.n_rows > max_rows or len(shards) == MAX_SHARDS):
                parts.append(ShardPart(tuple(shards), self._order))
                rows, shards = 0, []
            rows += piece.n_rows
            shards.append(piece)
        return (*parts, ShardPart(tuple(shards), self._order))


def blocks_of(shards: Iterable[Shard], order: tuple[int, ...] | None = None) -> Iterator[NDArray[np.floating]]:
    """Yield the blocks of one shard after another, with the columns in this order."""
    for shard in shards:
        for block in shard.blocks():
            yield block if order is None else block[:, order]


def open_shards(paths: Sequence[str | Path], *, key: str | None = None) -> ShardSet:
    """Open files of logits and check that they fit together, before any number is read.

    Parameters
    ----------
    paths : sequence of str or Path
        Files in .npy, .npz, .parquet or .csv format; ``-``, at most once, is standard input.
    key : str, optional
        Name of the array in .npz shards (by default ``logits``, or the only two-dimensional floating one) and
        of the list column in .parquet shards (by default ``logits``).

    Returns
    -------
    ShardSet

    Raises
    ------
    EnergyAlignError
        If a file cannot be used, or two do not have the same classes.
    """
    if not paths:
        raise EnergyAlignError("expected at least one file of logits, or `-` for standard input.")
    if sum(str(path) == DASH for path in paths) > 1:
        raise EnergyAlignError("`-` must be given at most once: standard input can be read only once.")
    shards, spools = [], []
    for path in paths:
        if str(path) == DASH:
            spool, extension = spool_stdin()
            spools.append(spool)
            shards.append(_open(spool.path, STDIN, extension, key))
        else:
            extension = require_extension(Path(path), EXTENSIONS)
            # Absolute, because another process may have another working directory.
            shards.append(_open(Path(path).absolute(), str(path), extension, key))
    return ShardSet(shards, spools)


def _open(path: Path, name: str, extension: str, key: str | None) -> Shard:
    if extension == ".npz":
        return NpzShard(path, name, key)
    if extension == ".parquet":
        return ParquetShard(path, name, key)
    if key is not None:
        raise EnergyAlignError(f"{name}: got key {key!r}, but a {extension} file has no keys. Leave it out.")
    return NpyShard(path, name) if extension == ".npy" else CsvShard(path, name)


def _require_same_number(shards: Sequence[Shard]) -> int:
    for shard in shards:
        if shard.n_classes != shards[0].n_classes:
            raise EnergyAlignError(
                f"{shard.name} has {shard.n_classes} class columns, but {shards[0].name} has "
                f"{shards[0].n_classes}: shards must come from the same classifier."
            )
    return shards[0].n_classes


def _require_same_names(shards: Sequence[Shard]) -> tuple[str, ...] | None:
    """Return the class names of all shards that have names; raise if they differ."""
    named = [shard for shard in shards if shard.class_names is not None]
    if not named:
        return None
    names = named[0].class_names or ()
    for shard in named:
        for index, (one, other) in enumerate(zip(names, shard.class_names or (), strict=True)):
            if one != other:
                raise EnergyAlignError(
                    f"{shard.name} calls class {index} {other!r}, but {named[0].name} calls it {one!r}: "
                    "shards must have the same classes in the same order."
                )
    return names


def expand_patterns(names: Sequence[str]) -> list[str]:
    """Replace each pattern (``*``, ``?``, ``[...]``, ``**``) by the files that match it, sorted.

    The name of an existing file is not a pattern, whatever its characters.
    """
    files: list[str] = []
    for name in names:
        if not glob.has_magic(name) or Path(name).exists():
            files.append(name)
            continue
        matches = sorted(glob.glob(name, recursive=True))
        if not matches:
            raise EnergyAlignError(f"{name} matches no file: check the folder and the pattern.")
        files += matches
    return files
