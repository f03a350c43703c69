"""Batches for training and evaluation that can start in the middle of an epoch.

A batch does not depend on what was loaded before it: order and augmentation are functions of the seed, the epoch and
the position in it. So a run that is resumed at batch 57 sees what the uninterrupted run would have seen, with any
number of worker processes, and several training processes together see the batches of a single process.
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

    Parameters
    ----------
    images : ImageSet
        Images in memory are moved to the device all at once; files are decoded by workers.
    batch_size : int
        Size of a batch over all training processes.
    seed : int
        Seed of order and augmentation.
    augment : bool, default True
        Whether to augment the images.
    order : Order, default None
        A sampler of `order.py`; None shuffles anew in every epoch.
    workers : int, default 0
        Processes that decode and transform files; 0 for this one. Their number changes no batch.
    device : device, default "cpu"
    """

    def __init__(
        self, images: ImageSet, *, batch_size: int, seed: int, augment: bool = True, order: Order | None = None,
        workers: int = 0, device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        if workers < 0:
            raise EnergyAlignError(f"workers must be >= 0 (0 loads images in this process), got {workers}.")
        self._batches: _FromMemory | _FromFiles
        if isinstance(images, MemoryImages):
            self._batches = _FromMemory(images.to(device), seed, augment)
        elif isinstance(images, FileImages):
            self._batches = _FromFiles(images, seed, augment, workers, torch.device(device))
        else:
            raise EnergyAlignError(f"images must be MemoryImages or FileImages, got {type(images).__name__}.")
        self._plan = BatchPlan(order or shuffled(len(images), seed), batch_size)

    @property
    def n_batches(self) -> int:
        """Number of batches of an epoch."""
        return self._plan.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Yield this rank's part of the batches `start`, `start` + 1, ... of an epoch."""
        return self._batches.load(number, self._plan.parts(number, start=start, rank=rank, world_size=world_size))


class _FromMemory:
    """Loads batches from memory and augments them on the device of the images."""

    def __init__(self, images: MemoryImages, seed: int, augment: bool) -> None:
        self._images, self._seed, self._augment = images, seed, augment
        self._labels = torch.from_numpy(images.labels).to(images.images.device)

    def load(self, epoch: int, parts: Iterator[BatchPart]) -> Iterator[Batch]:
        preparation = self._images.preparation
        for part in parts:
            chosen = torch.from_numpy(part.indices).to(self._labels.device)
            images = self._images.images[chosen]
            if self._augment:
                # Draw for the whole batch on every rank, so that crops do not depend on the number of ranks.
                draws = preparation.draw(part.size, generator(self._seed, AUGMENTATION, epoch, part.number))
                images = preparation.augment(images, draws[part.rows])
            yield Batch(preparation.normalise(images), self._labels[chosen])


class _FromFiles:
    """Loads batches from files, which worker processes decode and transform; they get a copy of this object."""

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
            # Without this generator, DataLoader would advance torch's global generator.
            generator=torch.Generator(),
        )
        with plain_errors():
            for images, labels in batches:
                # Send bytes and convert to float on the device: a quarter of the traffic.
                on_device = images.to(self._device, non_blocking=True)
                yield Batch(self._images.preparation.normalise(on_device), labels.to(self._device, non_blocking=True))

    def __getitem__(self, request: tuple[int, int, int]) -> tuple[torch.Tensor, int]:
        """Return one image and its label, transformed for its position in the run. Called in a worker."""
        index, epoch, position = request
        pixels = self._images.read(index)
        # torchvision draws from torch's global generator. Seed it directly, because torch.manual_seed also visits every
        # accelerator and takes ten times as long; and restore it, because without workers the training uses it too.
        source = torch.random.default_generator
        before = source.get_state()
        source.manual_seed(torch_seed(self._seed, AUGMENTATION, epoch, position))
        try:
            return self._transform(pixels), int(self._images.labels[index])
        finally:
            source.set_state(before)


def evaluation_batches(
    images: ImageSet, *, batch_size: int, workers: int = 0, device: torch.device | str = "cpu", shared: bool = False
) -> Iterator[Batch]:
    """Yield all images once, in their order and without augmentation.

    With `shared`, each rank of a process group gets some of the batches that a single process would have, or none.
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
    """Pairs of batches of two loaders, which must have epochs of the same length.

    Give the loaders different seeds, or both would augment alike.
    """

    def __init__(self, first: Loader, second: Loader) -> None:
        if first.n_batches != second.n_batches:
            raise EnergyAlignError(
                f"both loaders must have equally many batches, got {first.n_batches} and {second.n_batches}."
            )
        self._first, self._second, self.n_batches = first, second, first.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Pair]:
        """Yield this rank's part of the pairs `start`, `start` + 1, ... of an epoch."""
        first = self._first.epoch(number, start=start, rank=rank, world_size=world_size)
        second = self._second.epoch(number, start=start, rank=rank, world_size=world_size)
        return (Pair(*batch, *other) for batch, other in zip(first, second, strict=True))


def leave_signals_to_the_parent(_worker: int) -> None:
    """Ignore stop signals in a worker unless the parent sends them; for `worker_init_fn`.

    Ctrl-C and schedulers signal all processes of a group, but workers must live until the batch is finished. A parent
    that ends after an error sends SIGTERM to its workers and waits for them, so that signal must be obeyed.
    """
    for number in STOP_SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    if not hasattr(signal, "sigwaitinfo"):  # macOS and Windows: SIGTERM of any sender ends a worker
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_obey, args=(os.getppid(),), daemon=True).start()


def _obey(parent: int) -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Shorten errors of workers, whose message is a whole traceback, to the last line."""
    try:
        yield
    except CannotGoOn:  # raised in this process, not in a worker
        raise
    except EnergyAlignError as error:
        raise EnergyAlignError(str(error).strip().rpartition("EnergyAlignError: ")[2]) from error
