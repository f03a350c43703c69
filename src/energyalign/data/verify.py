"""Looking at every label and every file of a set before a run spends hours on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from PIL import Image

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.data.file_images import FileImages
from energyalign.data.images import ImageSet
from energyalign.data.threads import map_in_threads

Progress: TypeAlias = Callable[[int, int], None]


class BadFilesError(EnergyAlignError):
    """Files of a set that are missing or cannot be decoded; `files` are all of them, the message names a few."""

    def __init__(self, message: str, files: Iterable[str]) -> None:
        super().__init__(message)
        self.files = tuple(files)


def verify_images(images: ImageSet, *, progress: Progress | None = None) -> None:
    """Raise `BadFilesError` unless every file of the set is there and decodes as it will have to in training.

    Parameters
    ----------
    images : ImageSet
        Images in memory have been decoded already, and pass.
    progress : function of two numbers, optional
        Told how many images of how many have been decoded.
    """
    if not isinstance(images, FileImages):
        return
    # First whether all are there: that takes seconds where decoding takes minutes.
    missing = [images.file_name(i) for i, there in enumerate(map_in_threads(images.exists, len(images))) if not there]
    if missing:
        raise BadFilesError(
            f"{images.name}: {len(missing):,} of {len(images):,} files are missing: {some_of(missing)}. "
            "Check that the archive was unpacked whole, and that the data root is the folder the paths start from.",
            missing,
        )
    decode_all(images, lambda _index, _picture: None, progress=progress)


def decode_all(
    images: FileImages,
    use: Callable[[int, Image.Image], None],
    *,
    progress: Progress | None = None,
) -> None:
    """Hand every decoded image to `use`, from several threads; then raise if any could not be decoded."""

    def decoded(index: int) -> bool:
        try:
            picture = images.picture(index)
        except EnergyAlignError:
            return False
        use(index, picture)
        return True

    corrupt = []
    for index, fine in enumerate(map_in_threads(decoded, len(images))):
        if not fine:
            corrupt.append(images.file_name(index))
        if progress is not None:
            progress(index + 1, len(images))
    if corrupt:
        raise BadFilesError(
            f"{images.name}: {len(corrupt):,} of {len(images):,} files are no images that can be decoded: "
            f"{some_of(corrupt)}. Get these files again, or take them out of the set.",
            corrupt,
        )


def check_no_gap(labels: Ints, what: str) -> int:
    """Check that the labels are 0..C-1, each of them used; return C."""
    if len(labels) == 0:
        raise EnergyAlignError(f"{what} has no images.")
    if labels.min() < 0:
        raise EnergyAlignError(f"{what} has the label {labels.min()}: number the classes from 0.")
    used = np.unique(labels)
    n_classes = int(used[-1]) + 1
    if len(used) < n_classes:
        # Only the first ones: a label of 10^12 among ten images is one wrong label and a very long list.
        gap = np.setdiff1d(np.arange(min(n_classes, len(used) + 8)), used)[:8]
        raise EnergyAlignError(
            f"{what} has labels up to {n_classes - 1}, but no image of {n_classes - len(used):,} of these classes "
            f"(the first: {some_of(gap.tolist())}). Number the classes without gaps, or get the whole set."
        )
    return n_classes
