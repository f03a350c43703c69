"""A folder with a folder of images for each class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.preparation import IMAGENET_MEAN, IMAGENET_STD, LargePreparation, Normalisation

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")


def read_class_folders(folder: Path, name: str, class_names: tuple[str, ...] | None = None) -> FileImages:
    """The images below `folder`, classes and files in the order of their names.

    Parameters
    ----------
    folder : Path
    name : str
        What messages call the set.
    class_names : tuple of str, optional
        The classes of the training split, for a test split: it may leave some out, but not add any.
    """
    found = class_folders_in(folder)
    if len(found) < 2 and class_names is None:
        raise EnergyAlignError(
            f"{name}: {folder} has {len(found)} class folders, but a classifier needs at least 2: put the images of "
            "every class into a folder that is named after it."
        )
    names = found if class_names is None else class_names
    unknown = [one for one in found if one not in names]
    if unknown:
        raise EnergyAlignError(
            f"{name}: {folder} has classes that the training folder does not have: {some_of(unknown)}. Take their "
            "folders out, or get their training images."
        )
    files = {one: _images_below(folder, one) for one in found}
    empty = [one for one, paths in files.items() if not paths]
    if empty:
        raise EnergyAlignError(
            f"{name}: these class folders in {folder} have no images ({', '.join(EXTENSIONS)}): {some_of(empty)}. "
            "Fill them or remove them."
        )
    number = {one: k for k, one in enumerate(names)}
    labels = [number[one] for one, paths in files.items() for _ in paths]
    paths = tuple(path for members in files.values() for path in members)
    if not paths:
        raise EnergyAlignError(f"{name}: there are no class folders in {folder}.")
    return FileImages(
        name,
        DiskFiles(folder, paths),
        np.arange(len(paths)),
        np.array(labels, dtype=np.int64),
        names,
        LargePreparation(Normalisation(IMAGENET_MEAN, IMAGENET_STD)),
    )


def class_folders_in(folder: Path) -> tuple[str, ...]:
    """The names of the folders in a folder, hidden ones left out; none if it is no folder."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != "."))


def _identity(folder: str | Path) -> tuple[int, int]:
    """The same for a folder and for all links to it."""
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _images_below(folder: Path, class_name: str) -> list[str]:
    paths = []
    top = folder / class_name
    # Folders that were seen, and those that this one is in: a link to one of these would lead round in circles, and on
    # the way to the images of the other classes.
    outside = [*top.resolve().parents, folder.resolve(), *folder.resolve().parents]
    seen = {_identity(one) for one in outside}
    for where, folders, names in os.walk(top, followlinks=True):
        if _identity(where) in seen:
            folders.clear()
            continue
        seen.add(_identity(where))
        folders.sort()  # so that of two links to one folder the same one is followed everywhere
        # Hidden files are notes of a file system (._a.jpg, .DS_Store), not images.
        paths += [Path(where, name) for name in names if name[0] != "." and name.lower().endswith(EXTENSIONS)]
    return sorted(str(path.relative_to(folder)) for path in paths)
