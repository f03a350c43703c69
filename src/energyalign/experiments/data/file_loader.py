"""Batches of images that are decoded and transformed in worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.batch import Batch
from energyalign.experiments.data.batch_plan import BatchPlan, Part
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.order import Order, shuffled
from energyalign.experiments.data.readers import leave_signals_to_the_parent, plain_errors
from energyalign.experiments.data.seeds import AUGMENTATION, torch_seed


class FileLoader:
    """Batches of `FileImages`.

    Parameters
    ----------
    images : FileImages
    batch_size, seed, augment, drop_last, order
        As for `MemoryLoader`.
    workers : int
        Processes that decode and transform; 0 does it in this one. Their number changes no batch.
    device : torch.device or str
        Where the batches are wanted.
    """

    def __init__(
        self,
        images: FileImages,
        *,
        batch_size: int,
        seed: int,
        augment: bool = True,
        drop_last: bool = False,
        order: Order | None = None,
        workers: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self._images = images
        self._decoded = _Decoded(images, seed, augment)
        self._plan = BatchPlan(order or shuffled(len(images), seed), batch_size, drop_last=drop_last)
        check_workers(workers)
        self._workers = workers
        self._device = torch.device(device)

    @property
    def n_batches(self) -> int:
        """Batches of an epoch."""
        return self._plan.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Batches `start`, `start` + 1, ... of an epoch, and of these the part of one rank."""
        return self._batches(number, self._plan.parts(number, start=start, rank=rank, world_size=world_size))

    def _batches(self, epoch: int, parts: Iterator[Part]) -> Iterator[Batch]:
        requests = [
            [(int(index), epoch, int(position)) for index, position in zip(part.indices, part.positions, strict=True)]
            for part in parts
        ]
        batches = DataLoader(
            self._decoded,
            batch_sampler=requests,
            num_workers=self._workers,
            worker_init_fn=leave_signals_to_the_parent,
            pin_memory=self._device.type == "cuda",
            # Without one of its own, DataLoader draws from torch's global generator, which is not ours to advance.
            generator=torch.Generator(),
        )
        with plain_errors():
            for images, labels in batches:
                # Bytes travel from the workers to the device, floats are made there: a quarter of the traffic.
                on_device = images.to(self._device, non_blocking=True)
                yield Batch(self._images.preparation.normalise(on_device), labels.to(self._device, non_blocking=True))


def check_workers(workers: int) -> None:
    """For every kind of loader, those that need no workers included."""
    if workers < 0:
        raise EnergyAlignError(
            f"the number of workers is {workers}; it must be 0, to load images in this process, or more."
        )


class _Decoded:
    """What runs in a worker: one image, transformed as its place in the training run says."""

    def __init__(self, images: FileImages, seed: int, augment: bool) -> None:
        self._images = images
        self._seed = seed
        self._transform = images.preparation.transformation(augment=augment)

    def __getitem__(self, request: tuple[int, int, int]) -> tuple[torch.Tensor, int]:
        index, epoch, position = request
        picture = self._images.picture(index)
        # torchvision draws from torch's global generator. It is seeded directly, because torch.manual_seed also
        # visits every accelerator and takes ten times as long, and it is put back, because without workers this
        # process may be drawing from it too.
        source = torch.random.default_generator
        before = source.get_state()
        source.manual_seed(torch_seed(self._seed, AUGMENTATION, epoch, position))
        try:
            return self._transform(picture), int(self._images.labels[index])
        finally:
            source.set_state(before)
