"""Whether all images of a run can be read, before hours are spent on it."""

from __future__ import annotations

from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.verify import verify_images
from energyalign.pytorch.ranks import failing_together, own_part


def refuse_unreadable(*sets: ImageSet) -> None:
    """An error that names what cannot be read; the ranks of a process group share the files."""
    with failing_together():
        for images in sets:
            if not isinstance(images, MemoryImages):  # they have been read
                verify_images(images.subset(own_part(range(len(images)))))
