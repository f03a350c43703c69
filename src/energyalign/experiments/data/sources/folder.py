"""Folders of the user's own images, one for each class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.file_images import DiskFiles, FileImages, into_memory_if_small
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.preparation import IMAGENET
from energyalign.experiments.data.sources import Source, hold_out

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")
_SPLIT_NAMES = ("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval")


class Folder(Source):
    """``PATH/train/CLASS/...`` with ``PATH/test/CLASS/...``, or just ``PATH/CLASS/...``.

    Without a folder ``test``, ``val`` is the test split. Without a split, a fifth of every class (at least one image)
    is held out for testing, with a fixed seed. Images that all have one size up to 64 x 64 are kept in memory. All are
    read as RGB.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"folder:{path}"
        self.how_to_get = (
            f"Make {path} with a folder of images for each class, or with these folders in train/ and test/."
        )
        self._path = path
        # A folder train without folders in it is a class of that name.
        self._is_split = bool(class_folders_in(path / "train"))
        self._evaluation = [name for name in ("val", "test") if (path / name).is_dir()]

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "val", "test") if self._is_split and len(self._evaluation) > 1 else ("train", "test")

    def files(self, split: str) -> Sequence[Path]:
        """Return the folder of the split, or the folder from which the split is held out."""
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
        return images if self._is_split else hold_out(images, split)

    def _refuse_splits_of_other_names(self) -> None:
        """Raise if the folders are splits without a ``train``: val/ and test/ are not two classes."""
        found = () if self._is_split else class_folders_in(self._path)
        if found and all(name.lower() in _SPLIT_NAMES and class_folders_in(self._path / name) for name in found):
            raise EnergyAlignError(
                f"{self.name}: the folders in {self._path} ({', '.join(found)}) are splits, not classes, judging by "
                "their names and the folders in them. Name the training folder train and the test folder test."
            )


def read_class_folders(folder: Path, name: str, class_names: tuple[str, ...] | None = None) -> FileImages:
    """Read the images in the class folders of `folder`, sorted by name.

    For a test split, `class_names` are the classes of the training split, of which some may be missing.
    """
    found = class_folders_in(folder)
    if len(found) < 2 and class_names is None:
        raise EnergyAlignError(
            f"{name}: {folder} must have at least 2 class folders, got {len(found)}: put the images of every class "
            "into a folder that is named after it."
        )
    names = found if class_names is None else class_names
    unknown = [one for one in found if one not in names]
    if unknown:
        raise EnergyAlignError(
            f"{name}: {folder} has classes that the training folder lacks: {some_of(unknown)}. Remove their folders, "
            "or add their training images."
        )
    files = {one: _images_below(folder, one) for one in found}
    empty = [one for one, paths in files.items() if not paths]
    if empty:
        raise EnergyAlignError(
            f"{name}: class folders in {folder} have no images ({', '.join(EXTENSIONS)}): {some_of(empty)}. Fill them "
            "or remove them."
        )
    number = {one: k for k, one in enumerate(names)}
    labels = np.array([number[one] for one, paths in files.items() for _ in paths], dtype=np.int64)
    paths = tuple(path for members in files.values() for path in members)
    if not paths:
        raise EnergyAlignError(
            f"{name}: there are no class folders in {folder}: add the images, a folder for each class."
        )
    return FileImages(name, DiskFiles(folder, paths), np.arange(len(paths)), labels, names, IMAGENET)


def class_folders_in(folder: Path) -> tuple[str, ...]:
    """Return the names of the folders in a folder, without hidden ones; none if it is not a folder."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != "."))


def _identity(folder: str | Path) -> tuple[int, int]:
    """Return a key that is the same for a folder and all links to it."""
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _images_below(folder: Path, class_name: str) -> list[str]:
    paths = []
    top = folder / class_name
    # Folders seen so far, and folders that contain this one: following a link to one of these would loop, and reach the
    # images of other classes.
    outside = [*top.resolve().parents, folder.resolve(), *folder.resolve().parents]
    seen = {_identity(one) for one in outside}
    for where, folders, names in os.walk(top, followlinks=True):
        if _identity(where) in seen:
            folders.clear()
            continue
        seen.add(_identity(where))
        folders.sort()  # if two links lead to one folder, follow the same one on every system
        # Hidden files are metadata of a file system (._a.jpg, .DS_Store), not images.
        paths += [Path(where, name) for name in names if name[0] != "." and name.lower().endswith(EXTENSIONS)]
    return sorted(str(path.relative_to(folder)) for path in paths)
