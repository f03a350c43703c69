"""Data sets of the Hugging Face hub: Parquet files with a column of samples, here encoded images."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from energyalign.core._io.strict_json import parse_json
from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.file_images import FileImages, into_memory_if_small
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.preparation import IMAGENET
from energyalign.experiments.data.sources import Source
from energyalign.experiments.data.verify import check_no_gap
from energyalign.files.checks import InputFile, refuse_bomb
from energyalign.files.parquet import import_pyarrow
from energyalign.files.parquet_trial import require_plausible_sizes

LABEL_COLUMNS = ("label", "fine_label", "labels")
_PREFIXES = {"train": ("train",), "val": ("validation", "val", "valid"), "test": ("test",)}
_ROWS = 256
_MAX_BYTES = 32 * 2**30  # the encoded images of a split are kept in memory


class Shard(NamedTuple):
    """Samples and labels of one or more files."""

    column: Any
    labels: Ints
    names: tuple[str, ...] | None


class ParquetFolder(Source):
    """A folder of ``train-*.parquet`` and ``test-*.parquet`` (or ``validation-*``), or with these files in ``data/``.

    One column has the samples, and `label`, `fine_label` or `labels` the class numbers. Class names are read from the
    schema if it has them.
    """

    kind: ClassVar[str]
    """Prefix of the name of the data set, before the path."""
    column: ClassVar[str]
    """Description of the column of samples, for messages."""
    too_large: ClassVar[str]
    """What to do with a set that does not fit into memory, for messages."""

    def __init__(self, path: Path) -> None:
        self.name = f"{self.kind}:{path}"
        self.how_to_get = (
            f"Put the Parquet files of the set (on the Hugging Face hub: its folder data) into {path}, named "
            "train-*.parquet and test-*.parquet or validation-*.parquet."
        )
        self._path = path / "data" if (path / "data").is_dir() else path
        self._shards = {split: self._find(prefixes) for split, prefixes in _PREFIXES.items()}
        if not self._shards["test"]:
            self._shards["test"], self._shards["val"] = self._shards["val"], []

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "val", "test") if self._shards["val"] else ("train", "test")

    def files(self, split: str) -> Sequence[Path]:
        return self._shards[split] or [self._path / f"{split}-00000-of-00001.parquet"]

    def _find(self, prefixes: tuple[str, ...]) -> list[Path]:
        return sorted(path for prefix in prefixes for path in self._path.glob(f"{prefix}-*.parquet"))

    @abstractmethod
    def _holds_samples(self, types: Any, kind: Any) -> bool:
        """Return whether a column of this type has the samples; `types` is `pyarrow.types`."""

    @abstractmethod
    def _samples(self, arrow: Any, column: Any) -> Any:
        """Return the samples of a column."""

    def _read_split(self, split: str) -> Shard:
        """Read all shards of a split."""
        name, paths = f"{self.name} {split}", self.files(split)
        size = sum(path.stat().st_size for path in paths)
        if size > _MAX_BYTES:
            raise EnergyAlignError(f"{name} has {size:,} bytes, too many to keep in memory. {self.too_large}")
        arrow = import_pyarrow(name)
        parts = [self._read_shard(arrow, path) for path in paths]
        labels = np.concatenate([part.labels for part in parts])
        if len(labels) == 0:
            raise EnergyAlignError(f"{name} has no rows: {some_of(paths)}. {self.how_to_get}")
        column = arrow.chunked_array([chunk for part in parts for chunk in part.column.chunks])
        return Shard(column, labels, parts[0].names)

    def _read_shard(self, arrow: Any, path: Path) -> Shard:
        with InputFile(path, str(path), "a Parquet file").reading():
            schema = arrow.parquet.read_schema(path)
            samples = [field.name for field in schema if self._holds_samples(arrow.types, field.type)]
            labels = [name for name in LABEL_COLUMNS if name in schema.names]
            if len(samples) != 1 or not labels:
                raise EnergyAlignError(
                    f"{path} needs one column of {self.column} and one of class numbers ({', '.join(LABEL_COLUMNS)}); "
                    f"its columns: {some_of(schema.names)}."
                )
            table = _read_columns(arrow, path, [samples[0], labels[0]])
            column = table[labels[0]]
            if column.null_count or not arrow.types.is_integer(column.type):
                raise EnergyAlignError(f"{path}: the column {labels[0]} must hold a class number in every row.")
            numbers = column.to_numpy().astype(np.int64)
            return Shard(self._samples(arrow, table[samples[0]]), numbers, _names_in(schema, labels[0]))


class HuggingFaceParquet(ParquetFolder):
    """Images in a column of structs with the field ``bytes``.

    The encoded images of a split are kept in memory; if all have one size up to 64 x 64, they are decoded.
    """

    kind = "parquet"
    column = "images (structs with the field `bytes`)"
    too_large = "Export it as image files and use folder:PATH."

    def _holds_samples(self, types: Any, kind: Any) -> bool:
        return bool(types.is_struct(kind) and kind.get_field_index("bytes") >= 0)

    def _samples(self, arrow: Any, column: Any) -> Any:
        # Shards may have different types of bytes, and the chunks of a column must not.
        return arrow.compute.struct_field(column, "bytes").cast(arrow.large_binary())

    def _load(self, split: str) -> ImageSet:
        train = self._read("train")
        return into_memory_if_small(train if split == "train" else self._read(split, train.class_names), train)

    def _read(self, split: str, class_names: tuple[str, ...] | None = None) -> FileImages:
        name, read = f"{self.name} {split}", self._read_split(split)
        names = class_names or read.names or tuple(map(str, range(check_no_gap(read.labels, name))))
        encoded = ParquetBytes(name, read.column)
        return FileImages(name, encoded, np.arange(len(read.labels)), read.labels, names, IMAGENET)


@dataclass(frozen=True, eq=False)
class ParquetBytes:
    """Encoded images in a column of bytes."""

    what: str
    column: Any  # a pyarrow array

    def name(self, index: int) -> str:
        """Return the number of the row: rows have no names."""
        return f"{self.what}, row {index} (counted from 0)"

    def exists(self, index: int) -> bool:
        """Return whether the row has bytes; some sets have only a path to a file elsewhere."""
        return bool(self.column[index].is_valid)

    def open(self, index: int) -> BinaryIO:
        return io.BytesIO(self.column[index].as_buffer())

    def mark(self, index: int) -> str:
        """Return size and number of the row; hashing the bytes, possibly gigabytes, would take too long."""
        value = self.column[index]
        return f"{value.as_buffer().size if value.is_valid else 'missing'} {index}"


def _read_columns(arrow: Any, path: Path, columns: list[str]) -> Any:
    """Read columns in batches: a file that stores one image once for many rows may unpack to gigabytes."""
    size, in_memory, batches = path.stat().st_size, 0, []
    with arrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        require_plausible_sizes(file, path, str(path), columns)
        for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
            in_memory += batch.nbytes
            refuse_bomb(in_memory, size, str(path))
            batches.append(batch)
        return arrow.Table.from_batches(batches, arrow.schema([file.schema_arrow.field(one) for one in columns]))


def _names_in(schema: Any, column: str) -> tuple[str, ...] | None:
    """Return the class names that the datasets library has stored in the schema, or None."""
    note = (schema.metadata or {}).get(b"huggingface")
    if note is None:
        return None
    try:
        names = parse_json(note.decode())["info"]["features"][column]["names"]
    except (ValueError, KeyError, TypeError):
        return None
    if isinstance(names, dict):
        names = [names[key] for key in sorted(names, key=int)]
    return tuple(str(name) for name in names) or None
