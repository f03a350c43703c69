"""Batches of images that are in memory, augmented a whole batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from energyalign.experiments.data.batch import Batch
from energyalign.experiments.data.batch_plan import BatchPlan, Part
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.order import Order, shuffled
from energyalign.experiments.data.seeds import AUGMENTATION, generator


class MemoryLoader:
    """Batches of `MemoryImages`, on the device where the images are.

    Parameters
    ----------
    images : MemoryImages
    batch_size : int
        Over all processes.
    seed : int
        Of the order and of the augmentation.
    augment : bool
    drop_last : bool
        Leave out the last batch of an epoch if it is not full.
    order : function from the number of an epoch to indices, optional
        A seeded permutation unless given; samplers go in here.
    """

    def __init__(
        self,
        images: MemoryImages,
        *,
        batch_size: int,
        seed: int,
        augment: bool = True,
        drop_last: bool = False,
        order: Order | None = None,
    ) -> None:
        self._images = images
        self._labels = torch.from_numpy(images.labels).to(images.images.device)
        self._seed = seed
        self._augment = augment
        self._plan = BatchPlan(order or shuffled(len(images), seed), batch_size, drop_last=drop_last)

    @property
    def n_batches(self) -> int:
        """Batches of an epoch."""
        return self._plan.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Batches `start`, `start` + 1, ... of an epoch, and of these the part of one rank."""
        parts = self._plan.parts(number, start=start, rank=rank, world_size=world_size)
        return (self._batch(number, part) for part in parts)

    def _batch(self, epoch: int, part: Part) -> Batch:
        preparation = self._images.preparation
        chosen = torch.from_numpy(part.indices).to(self._labels.device)
        images = self._images.images[chosen]
        if self._augment:
            # Drawn for the whole batch whatever the rank, so that an image is cropped alike on any number of ranks.
            draws = preparation.draw(part.size, generator(self._seed, AUGMENTATION, epoch, part.number))
            images = preparation.augment(images, draws[part.rows])
        return Batch(preparation.normalise(images), self._labels[chosen])
