"""Cost of a checkpoint after every epoch of a training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.cifar_training import BATCH, made_up_images, train
from bench.line import Line, at_most
from bench.measure import alternate
from bench.own_process import OwnProcess

# Timed batches, and batches of an epoch of CIFAR-100-LT with imbalance 100 (10,847 images).
BATCHES, EPOCH = 2, 85


def lines() -> Iterator[Line]:
    """Compare epochs of two batches and a checkpoint each with two batches within an epoch."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(OwnProcess(train, Path(folder, "with"), made_up_images(BATCHES * BATCH), BATCHES)) as saving,
        closing(OwnProcess(train, Path(folder, "without"), made_up_images(100 * BATCH), BATCHES)) as going_on,
    ):
        seconds = alternate({"with": saving.turn, "without": going_on.turn}, rounds=9)
    without = [EPOCH / BATCHES * one for one in seconds["without"]]
    ends = [own - other for own, other in zip(seconds["with"], seconds["without"], strict=True)]
    yield Line.of(
        "resume overhead",
        f"ResNet-32, CIFAR-100-LT, a checkpoint for every epoch of {EPOCH} batches; {BATCHES} are timed, the end of an "
        "epoch once, and the others extrapolated",
        "without checkpoints", at_most(1.02),
        ours=[epoch + end for epoch, end in zip(without, ends, strict=True)], theirs=without,
    )  # fmt: skip
