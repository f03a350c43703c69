"""Sources of images: one file each, one line each in the registry, imported on first use."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.cut import choose_of_each_class

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet

DEFAULT_ROOT = Path("data")
_SPLIT_SEED = 0  # for `hold_out`: fixed, so that all runs on a set have the same test images
_Set = TypeVar("_Set", bound="ImageSet")


class SourceEntry(NamedTuple):
    """An entry of the registry."""

    where: str  # `module:name` below this package: a callable that takes the data root, or the path after the colon
    description: str
    reference: str


SOURCES: dict[str, SourceEntry] = {
    "digits": SourceEntry("digits:Digits", "handwritten digits, 8 x 8, 10 classes, part of scikit-learn", "UCI, 1998"),
    "fashion-mnist": SourceEntry("fashion:FashionMnist", "clothes, grey, 28 x 28, 10 classes", "Xiao et al. 2017"),
    "cifar10": SourceEntry("cifar:cifar10", "colour images, 32 x 32, 10 classes", "Krizhevsky 2009"),
    "cifar100": SourceEntry("cifar:cifar100", "colour images, 32 x 32, 100 classes", "Krizhevsky 2009"),
    "imagenet": SourceEntry("imagenet:ImageNet", "photographs, 1,000 classes", "Russakovsky et al. 2015"),
    "imagenet-lt": SourceEntry("lists:imagenet_lt", "photographs, 1,000 classes, long-tailed", "Liu et al. 2019"),
    "inaturalist18": SourceEntry(
        "lists:inaturalist18", "photographs of 8,142 species, long-tailed", "Van Horn et al. 2018"
    ),
    "features:PATH": SourceEntry("features:features", "features of your own encoder: .npz, .safetensors, Parquet", ""),
    "folder:PATH": SourceEntry("folder:Folder", "your own images, a folder for each class", ""),
    "lists:PATH": SourceEntry("lists:any_lists", "images listed in train.txt and test.txt, lines of `path label`", ""),
    "parquet:PATH": SourceEntry(
        "hf_parquet:HuggingFaceParquet", "train-*.parquet and test-*.parquet of the Hugging Face hub", ""
    ),
}


def check_source(name: str) -> None:
    """Raise if there is no data set of this name."""
    if _key(name) not in SOURCES or name.endswith(":PATH"):
        raise EnergyAlignError(f"unknown data set {name!r}: choose one of {', '.join(SOURCES)}.")


def open_source(name: str, data_root: str | Path | None = None) -> Source:
    """Return the source of this name: a key of `SOURCES`, with a path in place of ``PATH``.

    Files of named sets are in `data_root` (default: ``data``). A path in the name is not relative to it.
    """
    check_source(name)
    _, colon, path = name.partition(":")
    place = Path(path) if colon else Path(DEFAULT_ROOT if data_root is None else data_root)
    source: Source = pkgutil.resolve_name(f"{__name__}.{SOURCES[_key(name)].where}")(place.expanduser())
    return source


def _key(name: str) -> str:
    prefix, colon, path = name.partition(":")
    return f"{prefix}:PATH" if colon and path else name


class Source(ABC):
    """A data set in a folder: its files, and its splits. Creating one reads no image and downloads nothing."""

    name: str
    """The name that the user gave."""

    how_to_get: str
    """Instructions: which archives, where their authors publish them, and where to put them."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits: ``train`` and ``test``, and for some sources ``val``."""
        return ("train", "test")

    @abstractmethod
    def files(self, split: str) -> Sequence[Path]:
        """Return the files and folders of a split, whether they exist or not."""

    @abstractmethod
    def _load(self, split: str) -> ImageSet: ...

    @property
    def has_validation(self) -> bool:
        """Whether there is a validation split and its files exist."""
        return "val" in self.splits and all(path.exists() for path in self.files("val"))

    def load(self, split: str) -> ImageSet:
        """Load the images of a split, or raise an error that says what is missing and how to get it."""
        if split not in self.splits:
            raise EnergyAlignError(f"{self.name} has no split {split!r}: choose one of {', '.join(self.splits)}.")
        missing = [path for path in self.files(split) if not path.exists()]
        if missing:
            raise EnergyAlignError(f"{self.name} needs {some_of(missing)}, which is missing. {self.how_to_get}")
        images = self._load(split)
        if split == "train":
            _require_every_class(images)
        return images

    def download(self) -> None:
        """Download the files of the set; only a few sources support it."""
        raise EnergyAlignError(f"energyalign cannot download {self.name}. {self.how_to_get}")


def _require_every_class(images: ImageSet) -> None:
    counts = np.bincount(images.labels, minlength=images.n_classes)
    empty = [name for name, count in zip(images.class_names, counts, strict=True) if count == 0]
    if empty:
        raise EnergyAlignError(
            f"{images.name} has no {images.unit} of {len(empty):,} of its {images.n_classes:,} classes: "
            f"{some_of(empty)}. Get the whole set, or leave these classes out."
        )


def hold_out(images: _Set, split: str) -> _Set:
    """Split a set that has no test split: a fifth of every class for ``test``, the rest for ``train``."""
    counts = np.bincount(images.labels, minlength=images.n_classes)
    too_small = [name for name, count in zip(images.class_names, counts, strict=True) if count == 1]
    if too_small:
        raise EnergyAlignError(
            f"{images.name} needs at least 2 {images.unit}s of every class, for training and for testing, got 1 of "
            f"{some_of(too_small)}. Add more, or give a test part of your own."
        )
    is_test = choose_of_each_class(images.labels, 1 / 5, np.random.default_rng(_SPLIT_SEED))
    return images.subset(np.flatnonzero(is_test if split == "test" else ~is_test))


def first_with(places: Sequence[Path], wanted: str) -> Path:
    """Return the first folder that has an entry of this name, or the first folder if none has."""
    return next((place for place in places if (place / wanted).exists()), places[0])
