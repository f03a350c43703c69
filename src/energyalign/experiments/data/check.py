"""Whether a data set is there, whole and usable; and if not, what to do about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.sources.base import Source
from energyalign.experiments.data.verify import BadFilesError, Progress, verify_images


def check_source(source: Source, say: Callable[[str], None], *, progress: Progress | None = None) -> None:
    """Look for every file, load every split, decode every image.

    Parameters
    ----------
    source : Source
    say : function of a line of text
        Told what is found and what is not.
    progress : function of two numbers, optional
        Told how many images of a split have been decoded.

    Raises
    ------
    EnergyAlignError
        With what is wrong and how to get what is missing.
    """
    paths = list(dict.fromkeys(path for split in source.splits for path in source.files(split)))
    missing = [path for path in paths if not path.exists()]
    for path in paths:
        say(f"{'MISSING' if path in missing else 'found':<8} {path}")
    if missing:
        raise EnergyAlignError(f"{source.name}: {len(missing)} of {len(paths)} are missing. {source.how_to_get}")
    for split in source.splits:
        try:
            images = source.load(split)  # which decodes small images
            verify_images(images, progress=progress)
        except BadFilesError as error:
            for file in error.files:
                say(f"{'BAD':<8} {file}")
            raise
        say(_summary(split, images))


def _summary(split: str, images: ImageSet) -> str:
    counts = np.bincount(images.labels, minlength=images.n_classes)
    return (
        f"{split:<8} {len(images):,} images of {images.n_classes:,} classes, "
        f"{counts.min():,} to {counts.max():,} images per class"
    )
