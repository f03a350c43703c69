"""Sources of images: one file each, one line each in the registry, loaded when they are used."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from energyalign.core.errors import EnergyAlignError, some_of

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet

DEFAULT_ROOT = Path("data")
_SPLIT_SEED = 0  # of a split of our own: every run on a set has the same test images
_Set = TypeVar("_Set", bound="ImageSet")


class SourceEntry(NamedTuple):
    """A row of the registry."""

    where: str  # `module:name` below this package: a callable from the data root, or from the path after the colon
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
    """Refuse a data set that there is not."""
    if _key(name) not in SOURCES or name.endswith(":PATH"):
        raise EnergyAlignError(f"unknown data set {name!r}: choose {', '.join(SOURCES)}.")


def open_source(name: str, data_root: str | Path | None = None) -> Source:
    """The source of this name: a key of `SOURCES`, with a path in place of ``PATH``.

    The files of named sets are in `data_root`, ``data`` unless given. A path in the name does not start there, but
    where every path starts.
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
    """A data set in a place: it says which files it needs, whether they are there, and loads its splits.

    Making a source reads no file and downloads nothing.
    """

    name: str
    """What the user called it."""

    how_to_get: str
    """In words: which archives, where their authors publish them, and where to put them."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it has; all sources have ``train`` and ``test``, some have ``val``."""
        return ("train", "test")

    @abstractmethod
    def files(self, split: str) -> Sequence[Path]:
        """The files and folders that a split is read from, whether they are there or not."""

    @abstractmethod
    def _load(self, split: str) -> ImageSet: ...

    def load(self, split: str) -> ImageSet:
        """The images of a split, or an error that names what is missing and says how to get it."""
        if split not in self.splits:
            raise EnergyAlignError(f"{self.name} has no split {split!r}: choose {', '.join(self.splits)}.")
        missing = [path for path in self.files(split) if not path.exists()]
        if missing:
            raise EnergyAlignError(f"{self.name} needs {some_of(missing)}, which is not there. {self.how_to_get}")
        images = self._load(split)
        if split == "train":
            _require_every_class(images)
        return images

    def download(self) -> None:
        """Fetch the files of the set; only a few sets can be had this way."""
        raise EnergyAlignError(f"{self.name} is not downloaded by energyalign. {self.how_to_get}")


def _require_every_class(images: ImageSet) -> None:
    counts = np.bincount(images.labels, minlength=images.n_classes)
    empty = [name for name, count in zip(images.class_names, counts, strict=True) if count == 0]
    if empty:
        raise EnergyAlignError(
            f"{images.name} has no image of {len(empty):,} of its {images.n_classes:,} classes: {some_of(empty)}. "
            "Get the whole set, or leave these classes out."
        )


def hold_out(images: _Set, split: str) -> _Set:
    """A fifth of every class for ``test``, the rest for ``train``; of a set that is not split."""
    rng = np.random.default_rng(_SPLIT_SEED)
    chosen, too_small = [], []
    for k, name in enumerate(images.class_names):
        members = rng.permutation(np.flatnonzero(images.labels == k))
        n_test = max(1, round(len(members) / 5))
        if n_test == len(members):
            too_small.append(name)
        chosen.append(members[:n_test] if split == "test" else members[n_test:])
    if too_small:
        raise EnergyAlignError(
            f"{images.name} cannot be made: these classes have a single {images.unit}, and training and testing need "
            f"one each: {some_of(too_small)}. Add more, or give a test part of your own."
        )
    return images.subset(np.sort(np.concatenate(chosen)))


def first_with(places: Sequence[Path], wanted: str) -> Path:
    """The first of some folders that has a file or folder of this name; the first of all if none has."""
    return next((place for place in places if (place / wanted).exists()), places[0])
