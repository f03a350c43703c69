"""Train ResNet-32 on synthetic CIFAR images, by a plain step or by the package's loop, some batches at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from bench.own_process import Turns
from energyalign.cli.process import keep_freed_memory
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.loader import Loader
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.nets.network import Network, make_network
from energyalign.experiments.train.checkpoint import Position
from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.recipe import SGD, Constant, Recipe
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import open_run

BATCH, CLASSES = 128, 100
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
RECIPE = Recipe(1000, BATCH, SGD(0.1), Constant())


def made_up_images(n: int) -> MemoryImages:
    """Draw `n` images of 32 x 32 pixels from a seed."""
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8))
    preparation = SmallPreparation(Normalisation(MEAN, STD))
    names = tuple(map(str, range(CLASSES)))
    return MemoryImages("made-up", pixels, rng.integers(0, CLASSES, n), names, preparation)


def made_up_network() -> Network:
    """Make the network of the CIFAR presets from a seed."""
    seed_torch(0, "network")
    return make_network("resnet32", CLASSES)


def plain_step(network: torch.nn.Module) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """Make a plain training step: forward, backward, and the optimiser's step."""
    optimizer = RECIPE.optimizer.make(network.parameters())
    network.train()

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        loss = F.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def train(turns: Turns, folder: Path, images: MemoryImages, batches: int, compile: bool = False) -> None:
    """Train with the package's loop and loader, a fixed number of batches per turn.

    All rounds of a benchmark share one training, because compiling the network for each would take too long.
    """
    keep_freed_memory()  # as the commands do
    turns.next()
    with open_run(folder, {}) as run:
        TrainingLoop(
            Fabric(accelerator="cpu", devices=1), made_up_network(),
            batches=Loader(images, batch_size=BATCH, seed=0), loss=CrossEntropy().loss(None),
            recipe=RECIPE, run=run, seed=0, reporter=PartByPart(turns, batches), compile=compile,
        ).finish()  # fmt: skip


class PartByPart(Reporter):
    """Reporter that pauses the training after a fixed number of batches."""

    def __init__(self, turns: Turns, batches: int) -> None:
        self._turns, self._batches = turns, batches
        self._done = 0

    def batch_done(self, position: Position, lr: float) -> None:  # noqa: ARG002
        """Count a batch; after the last batch of the turn, wait for the next turn."""
        self._done += 1
        if self._done % self._batches == 0:
            self._turns.next()
