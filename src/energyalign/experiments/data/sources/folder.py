"""A user's own images: folders of classes, split already or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.in_memory import into_memory_if_small
from energyalign.experiments.data.sources.base import Source
from energyalign.experiments.data.sources.class_folders import class_folders_in, read_class_folders

_SPLIT_NAMES = ("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval")
_SPLIT_SEED = 0  # of the split alone: every run on this folder has the same test images


class Folder(Source):
    """``PATH/train/CLASS/...`` with ``PATH/test/CLASS/...``, or just ``PATH/CLASS/...``.

    Without a ``test`` folder ``val`` is the test split; with both there is a ``val`` split. A folder that is not split
    is split here: a fifth of every class, rounded and at least one image, drawn once with a fixed seed, is the
    test split. Images of one size up to 64 x 64 are kept in memory. All are read as RGB.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"folder:{path}"
        self.how_to_get = (
            f"Make {path} with a folder of images for each class, or with such folders in train/ and test/."
        )
        self._path = path
        # By the folders in it: a folder train of images alone would be a class of trains.
        self._is_split = bool(class_folders_in(path / "train"))
        self._evaluation = [name for name in ("val", "test") if (path / name).is_dir()]

    @property
    def splits(self) -> tuple[str, ...]:
        """``val`` only if there is a ``test`` folder besides."""
        return ("train", "val", "test") if self._is_split and len(self._evaluation) > 1 else ("train", "test")

    def files(self, split: str) -> Sequence[Path]:
        """The folder of the split, or the one that is to be split."""
        if not self._is_split:
            return [self._path]
        if split == "test":
            return [self._path / (self._evaluation[-1] if self._evaluation else "test")]
        return [self._path / split]

    def _load(self, split: str) -> ImageSet:
        self._refuse_splits_of_other_names()
        train = self._read("train")
        return into_memory_if_small(train if split == "train" else self._read(split, train.class_names), train)

    def _read(self, split: str, class_names: tuple[str, ...] | None = None) -> FileImages:
        images = read_class_folders(self.files(split)[0], f"{self.name} {split}", class_names)
        return images if self._is_split else _part(images, split)

    def _refuse_splits_of_other_names(self) -> None:
        """The images in val/ and test/ are not two classes, though a classifier might well learn to tell them apart."""
        found = () if self._is_split else class_folders_in(self._path)
        if found and all(name.lower() in _SPLIT_NAMES and class_folders_in(self._path / name) for name in found):
            raise EnergyAlignError(
                f"{self.name}: the folders in {self._path} ({', '.join(found)}) are named as splits, and there are "
                "folders in them, so they are not classes. Name the folder of the training images train, and that of "
                "the test images test."
            )


def _part(images: FileImages, split: str) -> FileImages:
    """A fifth of every class for testing, the rest for training."""
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
            f"{images.name} cannot be made: these classes have a single image, and training and testing need "
            f"one each: {some_of(too_small)}. Add images, or split it yourself into train/ and test/."
        )
    return images.subset(np.sort(np.concatenate(chosen)))
