"""Small images out of their files and into memory."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import torch
from PIL import Image

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.preparation import SmallPreparation
from energyalign.experiments.data.threads import map_in_threads
from energyalign.experiments.data.verify import decode_all

LARGEST_SIDE = 64


def into_memory(images: FileImages, size: tuple[int, int], preparation: SmallPreparation) -> MemoryImages:
    """All images decoded; they must all have this width and height."""
    width, height = size
    pixels = np.empty((len(images), height, width, 3), dtype=np.uint8)

    def fill(index: int, picture: Image.Image) -> None:
        if picture.size != size:
            raise EnergyAlignError(
                f"{images.name}: {images.file_name(index)} has {picture.width} x {picture.height} pixels, but the "
                f"(other) training images have {width} x {height}. Get the set again, or resize its images."
            )
        pixels[index] = np.asarray(picture)

    decode_all(images, fill)
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()
    return MemoryImages(images.name, tensor, images.labels, images.class_names, preparation)


def into_memory_if_small(images: FileImages, train: FileImages) -> ImageSet:
    """The images in memory if the training images all have one size of at most 64 x 64; otherwise as they are.

    Crops out of the padded image for the small, random resized crops for the large: that is a choice between two
    recipes. So it is made for all splits alike, by the sizes alone and never by how much memory there is.
    """
    size = train.size(0)
    if not 0 < max(size) <= LARGEST_SIDE:
        return images
    with closing(map_in_threads(train.size, len(train))) as sizes:
        if any(other != size for other in sizes):
            return images
    return into_memory(images, size, SmallPreparation(images.preparation.normalise))
