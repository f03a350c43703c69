"""Batches for training and evaluation that can be taken up in the middle of an epoch.

Nothing about a batch depends on what was loaded before it: order and augmentation are functions of the seed, the
epoch and the place in it. So a run that is resumed at batch 57 sees what the uninterrupted run would have seen, with
any number of worker processes, and several training processes together see what one would have seen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader

from energyalign.core._io.signals import STOP_SIGNALS
from energyalign.core.errors import CannotGoOn, EnergyAlignError
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.order import (
    AUGMENTATION,
    BatchPart,
    BatchPlan,
    Order,
    as_stored,
    generator,
    shuffled,
    torch_seed,
)
from energyalign.pytorch.ranks import in_a_group, own_part


class Batch(NamedTuple):
    """Normalised float32 images of shape (N, C, H, W) and their labels (int64)."""

    images: torch.Tensor
    labels: torch.Tensor


class Loader:
    """Batches of a set of images, epoch by epoch, on a device.

    Images in memory are moved to the device whole; those in files go through `workers`, processes that decode and
    transform (0 does it in this one), whose number changes no batch. The batch size is that over all training
    processes; the seed is that of the order and of the augmentation. An `order` other than a permutation drawn for each
    epoch is a sampler, see `order.py`.
    """

    def __init__(
        self, images: ImageSet, *, batch_size: int, seed: int, augment: bool = True, order: Order | None = None,
        workers: int = 0, device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        if workers < 0:
            raise EnergyAlignError(
                f"the number of workers is {workers}; it must be 0, to load images in this process, or more."
            )
        self._batches: _FromMemory | _FromFiles
        if isinstance(images, MemoryImages):
            self._batches = _FromMemory(images.to(device), seed, augment)
        elif isinstance(images, FileImages):
            self._batches = _FromFiles(images, seed, augment, workers, torch.device(device))
        else:
            raise EnergyAlignError(f"there is no loader for {type(images).__name__}: give MemoryImages or FileImages.")
        self._plan = BatchPlan(order or shuffled(len(images), seed), batch_size)

    @property
    def n_batches(self) -> int:
        """Batches of an epoch."""
        return self._plan.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Batches `start`, `start` + 1, ... of an epoch, and of these the part of one rank."""
        return self._batches.load(number, self._plan.parts(number, start=start, rank=rank, world_size=world_size))


class _FromMemory:
    """Augments a whole batch at a time, on the device where the images are."""

    def __init__(self, images: MemoryImages, seed: int, augment: bool) -> None:
        self._images, self._seed, self._augment = images, seed, augment
        self._labels = torch.from_numpy(images.labels).to(images.images.device)

    def load(self, epoch: int, parts: Iterator[BatchPart]) -> Iterator[Batch]:
        preparation = self._images.preparation
        for part in parts:
            chosen = torch.from_numpy(part.indices).to(self._labels.device)
            images = self._images.images[chosen]
            if self._augment:
                # Drawn for the whole batch whatever the rank, so that an image is cropped alike on any number of ranks.
                draws = preparation.draw(part.size, generator(self._seed, AUGMENTATION, epoch, part.number))
                images = preparation.augment(images, draws[part.rows])
            yield Batch(preparation.normalise(images), self._labels[chosen])


class _FromFiles:
    """Has worker processes, to which it is sent, decode and transform the images."""

    def __init__(self, images: FileImages, seed: int, augment: bool, workers: int, device: torch.device) -> None:
        self._images, self._seed, self._workers, self._device = images, seed, workers, device
        self._transform = images.preparation.transformation(augment=augment)

    def load(self, epoch: int, parts: Iterator[BatchPart]) -> Iterator[Batch]:
        requests = [
            [(int(index), epoch, int(position)) for index, position in zip(part.indices, part.positions, strict=True)]
            for part in parts
        ]
        batches = DataLoader(
            self,
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

    def __getitem__(self, request: tuple[int, int, int]) -> tuple[torch.Tensor, int]:
        """One image, transformed as its place in the training run says; this runs in a worker."""
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


def evaluation_batches(
    images: ImageSet, *, batch_size: int, workers: int = 0, device: torch.device | str = "cpu", shared: bool = False
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
    order = as_stored(len(images))
    loader = Loader(images, batch_size=batch_size, seed=0, augment=False, order=order, workers=workers, device=device)
    return loader.epoch(0)


class Pair(NamedTuple):
    """Two batches of the same size, each with images and labels as in `Batch`."""

    images: torch.Tensor
    labels: torch.Tensor
    other_images: torch.Tensor
    other_labels: torch.Tensor


class PairedLoader:
    """The first batch of both loaders, then the second of both, and so on; both need epochs of the same length.

    Give them seeds of their own, or the two would augment alike.
    """

    def __init__(self, first: Loader, second: Loader) -> None:
        if first.n_batches != second.n_batches:
            raise EnergyAlignError(f"{first.n_batches} batches cannot be paired with {second.n_batches}.")
        self._first, self._second, self.n_batches = first, second, first.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Pair]:
        """Pairs `start`, `start` + 1, ... of an epoch, and of these the part of one rank."""
        first = self._first.epoch(number, start=start, rank=rank, world_size=world_size)
        second = self._second.epoch(number, start=start, rank=rank, world_size=world_size)
        return (Pair(*batch, *other) for batch, other in zip(first, second, strict=True))


def leave_signals_to_the_parent(_worker: int) -> None:
    """For `worker_init_fn`: only the parent ends a reader.

    Ctrl-C and schedulers signal all processes of a group, and readers must live until the batch is finished. But a
    parent that ends after an error sends SIGTERM to those that are left, and would wait for them for ever.
    """
    for number in STOP_SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    if not hasattr(signal, "sigwaitinfo"):  # macOS and Windows: SIGTERM ends a reader, whoever sends it
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_obey, args=(os.getppid(),), daemon=True).start()


def _obey(parent: int) -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Reduce the error of a reader, which sends its whole traceback as the message, to its last line."""
    try:
        yield
    except CannotGoOn:  # of this process, not of a reader
        raise
    except EnergyAlignError as error:
        raise EnergyAlignError(str(error).strip().rpartition("EnergyAlignError: ")[2]) from error
