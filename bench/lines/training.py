"""Images per second of the training loop, compared with the bare step and with a typical script."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from bench.cifar_training import BATCH, MEAN, STD, made_up_images, made_up_network, plain_step, train
from bench.line import Line, at_least
from bench.measure import alternate
from bench.own_process import OwnProcess, Turns
from energyalign.cli.process import keep_freed_memory
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.loader import Loader

BATCHES = 3  # of each contestant in each round
WORKLOAD = "ResNet-32, CIFAR-shaped, batch 128, end to end with augmentation"


def lines() -> Iterator[Line]:
    """Measure the loop with and without compilation."""
    images = made_up_images(100 * BATCH)  # an epoch that does not end here
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(OwnProcess(train, Path(folder, "plain"), images, BATCHES)) as ours,
        closing(OwnProcess(_bare, images)) as bare,
        closing(OwnProcess(_script, images)) as script,
        closing(OwnProcess(train, Path(folder, "compiled"), images, BATCHES, True)) as compiled,
    ):
        seconds = alternate({"ours": ours.turn, "bare": bare.turn, "script": script.turn, "compiled": compiled.turn})
    name = "training throughput"
    yield Line.of(
        name, WORKLOAD, "forward, backward and step on one fixed batch", at_least(0.95),
        ours=seconds["ours"], theirs=seconds["bare"],
    )  # fmt: skip
    yield Line.of(
        name, WORKLOAD, "torchvision PIL transforms, DataLoader with 2 workers, a plain step", at_least(1.2),
        ours=seconds["ours"], theirs=seconds["script"],
    )  # fmt: skip
    yield Line.of(
        name, f"{WORKLOAD}, --compile", "ours without; the compilation itself is not counted", at_least(1.1),
        ours=seconds["compiled"], theirs=seconds["ours"], limit="Compiled training", floor=0.9,
    )  # fmt: skip


def _bare(turns: Turns, images: MemoryImages) -> None:
    """Make the bare step, the limit of the hardware, with the same memory settings as ours."""
    keep_freed_memory()
    step = plain_step(made_up_network())
    batch = next(Loader(images, batch_size=BATCH, seed=0).epoch(1))
    while True:
        turns.next()
        for _ in range(BATCHES):
            step(*batch)


def _script(turns: Turns, images: MemoryImages) -> None:
    """Make a typical script: default memory layout, and one image augmented at a time."""
    step = plain_step(made_up_network().to(memory_format=torch.contiguous_format))
    # One epoch per turn: workers that continued would load images of the next one during the other's turn.
    loader = DataLoader(
        _Pictures(images), BATCH, sampler=range(BATCHES * BATCH), num_workers=2, persistent_workers=True
    )
    while True:
        turns.next()
        for pictures, labels in loader:
            step(pictures, labels)


class _Pictures(Dataset):  # type: ignore[type-arg]
    """Dataset like torchvision's CIFAR: arrays that become pictures when they are read."""

    def __init__(self, images: MemoryImages) -> None:
        self._pixels = images.images.permute(0, 2, 3, 1).contiguous().numpy()
        self._labels = images.labels.tolist()
        self._transform = transforms.Compose(
            [
                transforms.RandomCrop(32, padding=4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._transform(Image.fromarray(self._pixels[index])), self._labels[index]
