"""Looking at every label and every file of a set before a run spends hours on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from PIL import Image

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.threads import map_in_threads

MOST_FILES_NAMED = 50

Progress: TypeAlias = Callable[[int, int], None]


class BadFilesError(EnergyAlignError):
    """Files of a set that are missing or cannot be decoded.

    Parameters
    ----------
    images : FileImages
    problem : str
        What is wrong with them, as in "4 of 100 files `problem`".
    files : iterable of str
        All of them; the message names them all if they are up to 50, and otherwise says where to see them all.
    remedy : str
    """

    def __init__(self, images: FileImages, problem: str, files: Iterable[str], remedy: str) -> None:
        self.files = tuple(files)
        named = ", ".join(self.files)
        if len(self.files) > MOST_FILES_NAMED:
            # A set is named after its source and its split.
            command = f"energyalign data check {images.name.rpartition(' ')[0] or images.name}"
            named = f"{some_of(self.files)} (`{command}`, with the --data-root of this run, lists all)"
        super().__init__(
            f"{images.name}: {len(self.files):,} of {len(images):,} files {problem}: {named}. {remedy}",
        )


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
        remedy = "Check that the archive was unpacked whole, and that the data root is the folder the paths start from."
        raise BadFilesError(images, "are missing", missing, remedy)
    decode_all(images, lambda _index, _picture: None, progress=progress)


def decode_all(
    images: FileImages,
    use: Callable[[int, Image.Image], None],
    *,
    progress: Progress | None = None,
) -> None:
    """Hand every decoded image to `use`, from several threads; then raise if any could not be decoded."""

    def problem_with(index: int) -> str | None:
        try:
            picture = images.picture(index)
        except EnergyAlignError as error:
            return str(error)
        use(index, picture)
        return None

    bad, reason = [], ""
    for index, problem in enumerate(map_in_threads(problem_with, len(images))):
        if problem is not None:
            bad.append(images.file_name(index))
            reason = reason or problem
        if progress is not None:
            progress(index + 1, len(images))
    if bad:
        raise BadFilesError(images, "are no images that can be decoded", bad, f"The first of them: {reason}")


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
