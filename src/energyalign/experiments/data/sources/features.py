"""Features of the user's own encoder: a file of arrays, or Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load

from energyalign.core._io.strict_json import parse_json
from energyalign.core._io.tensors import read_tensors
from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.features import FeatureSet
from energyalign.experiments.data.sources import Source, hold_out
from energyalign.experiments.data.sources.hf_parquet import ParquetFolder
from energyalign.experiments.data.verify import check_no_gap
from energyalign.files.checks import InputFile, require_extension
from energyalign.files.npz import read_arrays

Arrays = Mapping[str, NDArray[Any]]


def features(path: Path) -> Source:
    """Return the source of a path: a folder of Parquet files, or a file of arrays."""
    return FeatureFolder(path) if path.is_dir() else FeatureFile(path)


class FeatureFile(Source):
    """Arrays ``x_train``, ``y_train``, ``x_test``, ``y_test`` in a .npz or .safetensors file.

    ``x_`` are features (n_samples, n_features), ``y_`` class numbers from 0, or in .npz also class names. ``names`` are
    the class names: an array in .npz, a JSON list in the metadata of .safetensors. ``x_val`` and ``y_val`` are
    optional. Without a test part, a fifth of every class is held out, with a fixed seed.

    All features are divided by the root mean square of the training features.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"features:{path}"
        self.how_to_get = (
            f"Save {path} with the arrays x_train, y_train, x_test and y_test, for example by `energyalign features`."
        )
        self._path = path

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "val", "test") if self._path.exists() and "x_val" in self._arrays else ("train", "test")

    def files(self, split: str) -> Sequence[Path]:  # noqa: ARG002
        return [self._path]

    @cached_property
    def _arrays(self) -> Arrays:
        if require_extension(self._path, (".npz", ".safetensors")) == ".npz":
            arrays = read_arrays(self._path)
        else:
            arrays = _read_safetensors(self._path)
        known = {"names"} | {f"{kind}_{split}" for kind in "xy" for split in ("train", "val", "test")}
        missing = {"x_train", "y_train"} - arrays.keys()
        alone = [name for name in arrays if name[:2] in ("x_", "y_") and "xy"[name[0] == "x"] + name[1:] not in arrays]
        if alone and not missing:
            other = "xy"[alone[0][0] == "x"] + alone[0][1:]
            raise EnergyAlignError(f"{self._path}: {alone[0]} has no {other}: add it, or remove {alone[0]}.")
        if missing or not arrays.keys() <= known:
            raise EnergyAlignError(
                f"{self._path} must hold x_train and y_train, and may hold x_test and y_test, x_val and y_val, and "
                f"names; it holds {some_of(sorted(arrays))}."
            )
        return arrays

    def _load(self, split: str) -> FeatureSet:
        arrays = self._arrays
        names = class_names(self.name, arrays["y_train"], arrays.get("names"))
        part = split if f"x_{split}" in arrays else "train"
        labels = class_numbers(f"{self.name} {part}", arrays[f"y_{part}"], names)
        loaded = make_features(f"{self.name} {split}", arrays[f"x_{part}"], labels, names, train=arrays["x_train"])
        return loaded if "x_test" in arrays else hold_out(loaded, split)


class FeatureFolder(ParquetFolder):
    """A folder of ``train-*.parquet`` and ``test-*.parquet`` with a column of lists of floats, and class numbers.

    Without test files, a fifth of every class is held out; see `FeatureFile`.
    """

    kind = "features"
    column = "features (lists of floats)"
    too_large = "Save it as .safetensors in float32 or float16."

    def _holds_samples(self, types: Any, kind: Any) -> bool:
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return bool(is_list and types.is_floating(kind.value_type))

    def _samples(self, arrow: Any, column: Any) -> Any:
        return column.cast(arrow.large_list(column.type.value_type))

    @property
    def _has_test(self) -> bool:
        return bool(self._shards["test"])

    def files(self, split: str) -> Sequence[Path]:
        """Return the shards of a split, or the shards of ``train`` if the test split is held out from them."""
        return super().files(split if self._has_test else "train")

    def _load(self, split: str) -> FeatureSet:
        train = self._read_split("train")
        part = train if split == "train" or not self._has_test else self._read_split(split)
        names = train.names or tuple(map(str, range(check_no_gap(train.labels, self.name, "sample"))))
        vectors = _matrix(part.column, f"{self.name} {split}")
        reference = vectors if part is train else _matrix(train.column, f"{self.name} train")
        loaded = make_features(f"{self.name} {split}", vectors, part.labels, names, train=reference)
        return loaded if self._has_test else hold_out(loaded, split)


def make_features(
    name: str, vectors: NDArray[Any], labels: Ints, class_names: tuple[str, ...], *, train: NDArray[Any]
) -> FeatureSet:
    """Make a set of features, divided by the root mean square of the training features."""
    if vectors.ndim != 2 or train.ndim != 2 or vectors.dtype.kind != "f" or vectors.shape[1] != train.shape[1]:
        raise EnergyAlignError(
            f"{name}: features must be floating point of shape (n_samples, n_features), with as many features as in "
            f"training, got {vectors.dtype} of shape {vectors.shape}."
        )
    with np.errstate(over="ignore"):  # an error below
        squares = [np.square(row, dtype=np.float64).mean() for row in train if row.size]
    scale = float(np.sqrt(np.mean(squares))) if squares else 0.0
    if not (np.isfinite(scale) and scale > 0):
        wrong = np.argwhere(~np.isfinite(train))
        if len(wrong):
            row, column = wrong[0].tolist()
            raise EnergyAlignError(
                f"{name}: features must be finite, got {train[row, column]} in row {row}, column {column} of the "
                "training features."
            )
        raise EnergyAlignError(
            f"{name}: the training features are all zero, too large, or there are none: compute them again."
        )
    scaled = torch.from_numpy((vectors / np.float64(scale)).astype(np.float32))
    return FeatureSet(name, scaled, labels, class_names)


def _read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    file = InputFile(path, str(path), "a .safetensors file of NumPy's types")
    with file.open() as stream:
        arrays, metadata = read_tensors(stream, load)
        if "names" in metadata:
            arrays["names"] = np.array(parse_json(metadata["names"]), dtype=str)
    return arrays


def class_names(name: str, labels: NDArray[Any], names: NDArray[Any] | None) -> tuple[str, ...]:
    """Return the given class names, or else the labels if they are names, or else the class numbers."""
    if names is not None:
        return tuple(map(str, names.ravel()))
    if labels.dtype.kind == "U":
        return tuple(np.unique(labels).tolist())
    return tuple(map(str, range(check_no_gap(class_numbers(name, labels, None), name, "sample"))))


def class_numbers(name: str, labels: NDArray[Any], names: tuple[str, ...] | None) -> Ints:
    """Convert labels, which may be names, to class numbers."""
    if labels.dtype.kind == "U" and names is not None:
        number = {one: k for k, one in enumerate(names)}
        unknown = sorted(set(labels.tolist()) - number.keys())
        if unknown:
            raise EnergyAlignError(
                f"{name} has labels that are not among the classes: {some_of(unknown)}. Correct or remove them."
            )
        return np.array([number[one] for one in labels.tolist()], dtype=np.int64)
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise EnergyAlignError(
            f"{name}: labels must be one class number for each sample, got {labels.dtype} of shape {labels.shape}."
        )
    return labels.astype(np.int64)


def _matrix(column: Any, name: str) -> NDArray[Any]:
    """Convert a column of lists to an array."""
    vectors = column.combine_chunks()
    lengths = np.unique(np.diff(vectors.offsets.to_numpy()))
    if vectors.null_count or len(lengths) != 1:
        raise EnergyAlignError(f"{name}: all rows must have equally many features.")
    matrix: NDArray[Any] = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), -1)
    return matrix
