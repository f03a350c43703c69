"""Batches for training and evaluation that can be taken up in the middle of an epoch.

Nothing about a batch depends on what was loaded before it: order and augmentation are functions of the seed, the
epoch and the place in it. So a run that is resumed at batch 57 sees what the uninterrupted run would have seen, with
any number of worker processes, and several training processes together see what one would have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.batch import Batch
from energyalign.experiments.data.batch_plan import BatchPlan
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.file_loader import FileLoader, check_workers
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.memory_loader import MemoryLoader
from energyalign.experiments.data.order import Order, as_stored
from energyalign.pytorch.ranks import in_a_group, own_part


class Loader(Protocol):
    """What a training loop asks for."""

    @property
    def n_batches(self) -> int:
        """Batches of an epoch."""

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Batches `start`, `start` + 1, ... of an epoch, and of these the part of one rank."""


def make_loader(
    images: ImageSet,
    *,
    batch_size: int,
    seed: int,
    augment: bool = True,
    drop_last: bool = False,
    order: Order | None = None,
    workers: int = 0,
    device: torch.device | str = "cpu",
) -> Loader:
    """The loader for these images: small ones are moved to the device whole, large ones go through workers."""
    check_workers(workers)
    if isinstance(images, MemoryImages):
        return MemoryLoader(
            images.to(device), batch_size=batch_size, seed=seed, augment=augment, drop_last=drop_last, order=order
        )
    if isinstance(images, FileImages):
        return FileLoader(
            images,
            batch_size=batch_size,
            seed=seed,
            augment=augment,
            drop_last=drop_last,
            order=order,
            workers=workers,
            device=device,
        )
    raise EnergyAlignError(f"there is no loader for {type(images).__name__}: give MemoryImages or FileImages.")


def evaluation_batches(
    images: ImageSet,
    *,
    batch_size: int,
    workers: int = 0,
    device: torch.device | str = "cpu",
    shared: bool = False,
) -> Iterator[Batch]:
    """All images once, in their order and without augmentation.

    If the ranks of a process group are to share them, each gets whole batches, so that an image is in the company that
    it has in one process; a rank may get none.
    """
    if shared and in_a_group():
        n_batches = BatchPlan(as_stored(len(images)), batch_size).n_batches
        own = own_part(range(n_batches))
        if not own:
            return iter(())
        end = len(images) if own.stop == n_batches else own.stop * batch_size
        images = images.subset(range(own.start * batch_size, end))
    loader = make_loader(
        images,
        batch_size=batch_size,
        seed=0,
        augment=False,
        order=as_stored(len(images)),
        workers=workers,
        device=device,
    )
    return loader.epoch(0)
