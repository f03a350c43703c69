"""Check every label and every file of a set, before a run spends hours on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.file_images import BadFilesError, FileImages, Progress, decode_all, map_in_threads
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.sources import Source


def verify_source(source: Source, say: Callable[[str], None], *, progress: Progress | None = None) -> None:
    """Look for every file, load every split and decode every image; `say` gets a line about each file and split.

    Raises an error that says what is wrong and how to get what is missing.
    """
    paths = list(dict.fromkeys(path for split in source.splits for path in source.files(split)))
    missing = [path for path in paths if not path.exists()]
    for path in paths:
        say(f"{'MISSING' if path in missing else 'found':<8} {path}")
    if missing:
        raise EnergyAlignError(f"{source.name}: {len(missing)} of {len(paths)} are missing. {source.how_to_get}")
    for split in source.splits:
        try:
            images = source.load(split)  # decodes small images
            verify_images(images, progress=progress)
        except BadFilesError as error:
            for file in error.files:
                say(f"{'BAD':<8} {file}")
            raise
        say(_summarise(split, images))


def _summarise(split: str, images: ImageSet) -> str:
    counts = np.bincount(images.labels, minlength=images.n_classes)
    return (
        f"{split:<8} {len(images):,} {images.unit}s of {images.n_classes:,} classes, "
        f"{counts.min():,} to {counts.max():,} {images.unit}s per class"
    )


def verify_images(images: ImageSet, *, progress: Progress | None = None) -> None:
    """Raise `BadFilesError` if a file of the set is missing or cannot be decoded. Images in memory pass."""
    if not isinstance(images, FileImages):
        return
    # Look for missing files first: that takes seconds, decoding minutes.
    missing = [images.file_name(i) for i, there in enumerate(map_in_threads(images.exists, len(images))) if not there]
    if missing:
        remedy = "Check that the archive was unpacked completely, and that paths start at the data root."
        raise BadFilesError(images, "are missing", missing, remedy)
    decode_all(images, lambda _index, _picture: None, progress=progress)


def check_no_gap(labels: Ints, what: str, unit: str = "image") -> int:
    """Check that the labels are 0..C-1, each of them used; return C."""
    if len(labels) == 0:
        raise EnergyAlignError(f"{what} has no {unit}s: get the set again, or add some.")
    if labels.min() < 0:
        raise EnergyAlignError(f"{what} has the label {labels.min()}: number the classes from 0.")
    used = np.unique(labels)
    n_classes = int(used[-1]) + 1
    if len(used) < n_classes:
        # List only the first ones: a single wrong label may be 10^12.
        gap = np.setdiff1d(np.arange(min(n_classes, len(used) + 8)), used)[:8]
        raise EnergyAlignError(
            f"{what} has labels up to {n_classes - 1}, but no {unit} of {n_classes - len(used):,} of these classes "
            f"(the first: {some_of(gap.tolist())}). Number the classes without gaps, or get the whole set."
        )
    return n_classes
