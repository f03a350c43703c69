"""A parameter group may have a factor on the recipe's learning rate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.recipe import SGD, Recipe, Steps
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import open_run


class OneBatch:
    n_batches = 1

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Any]:  # noqa: ARG002
        yield from [(torch.ones(1, 1), torch.zeros(1))][start:]


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fast, self.slow = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * (self.fast + self.slow)


def test_a_factor_on_the_scheduled_rate(tmp_path: Path) -> None:
    """Two epochs with gradients of 1, at rates 0.5 and 0.05, and at a tenth of both."""
    network = Sum()
    groups = [{"params": [network.fast]}, {"params": [network.slow], "lr_factor": 0.1}]
    recipe = Recipe(2, 1, SGD(0.5, momentum=0.0, weight_decay=0.0), Steps((2,), 0.1, 2))
    with open_run(tmp_path / "run", {"what": "sum"}) as run:
        TrainingLoop(
            Fabric(accelerator="cpu", devices=1), network, parameters=groups, batches=OneBatch(),
            loss=lambda model, batch, _epoch: model(batch[0]).mean(), recipe=recipe, run=run, seed=0,
            reporter=Reporter(),
        ).finish()  # fmt: skip
    assert network.fast.item() == pytest.approx(-0.55)
    assert network.slow.item() == pytest.approx(-0.055)
