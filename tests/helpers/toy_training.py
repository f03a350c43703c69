"""A problem that trains in milliseconds, in the form that the training loop expects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import functional as F

from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.randomness import derived_seed, seed_torch
from energyalign.experiments.train.recipe import SGD, Recipe, Steps, WarmUp
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import open_run

torch.set_num_threads(1)

RECIPE = Recipe(4, 10, SGD(0.1, weight_decay=1e-3), Steps((3,), 0.1, 4, WarmUp(2)))


class ToyBatches:
    """Forty samples in a new order every epoch, with different noise in every batch."""

    n_batches = 4

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        inputs = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
        labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
        order = torch.randperm(40, generator=torch.Generator().manual_seed(derived_seed(7, "order", number)))
        for batch in range(start, 4):
            chosen = order[10 * batch : 10 * batch + 10][rank::world_size]
            noise = torch.Generator().manual_seed(derived_seed(7, "noise", number, batch))
            yield inputs[chosen] + 0.1 * torch.randn(10, 5, generator=noise)[rank::world_size], labels[chosen]


def toy_loss(model: nn.Module, batch: Any, epoch: int) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], label_smoothing=0.01 * epoch)


def toy_network() -> nn.Module:
    seed_torch(0, "network")
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def train_toy(
    folder: Path,
    *,
    recipe: Recipe = RECIPE,
    loss: Any = toy_loss,
    batches: Any = None,
    reporter: Reporter | None = None,
) -> nn.Module:
    network = toy_network()
    fabric = Fabric(accelerator="cpu", devices=1)
    with open_run(folder, {"what": "toy"}) as run:
        TrainingLoop(
            fabric, network, batches=batches or ToyBatches(), loss=loss, recipe=recipe, run=run, seed=3,
            reporter=reporter or Reporter(),
        ).finish()  # fmt: skip
    return network


def bytes_of(folder: Path) -> bytes:
    """Return the bytes of the newest checkpoint: weights, running statistics, momentum and position."""
    return max((folder / "checkpoints").iterdir()).read_bytes()
