"""What every source of images can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.images import ImageSet


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


def first_with(places: Sequence[Path], wanted: str) -> Path:
    """The first of some folders that has a file or folder of this name; the first of all if none has."""
    return next((place for place in places if (place / wanted).exists()), places[0])
