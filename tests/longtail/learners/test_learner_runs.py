"""Each learner of the losses room, from data to rows: it learns, and an interruption changes nothing."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.evidence import EvidencePlan
from energyalign.longtail.experiment import LongTailExperiment
from energyalign.longtail.learners import find_learner
from energyalign.longtail.methods import METHODS
from energyalign.longtail.presets import preset_for
from energyalign.longtail.rows import Row
from energyalign.train.interruption import Interrupted
from energyalign.train.position import Position
from energyalign.train.reporter import Reporter

torch.set_num_threads(1)

NAMES = [
    "focal", "mixup", "manifold-mixup", "ce-drw", "ce-drs", "cb-focal", "ldam-drw", "la-loss", "la-loss-ldam",
]  # fmt: skip


class StopIn(Reporter):
    """Ctrl-C in the middle of this epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def batch_done(self, position: Position, lr: float) -> None:  # noqa: ARG002
        if (position.epoch, position.batch) == (self.epoch, 5):
            os.kill(os.getpid(), signal.SIGINT)


def run(name: str, folder: Path, *, epochs: int, reporter: Reporter | None = None) -> Row:
    method, preset = METHODS[name], preset_for("digits", 50)
    config = LongTailConfig.from_preset(
        replace(preset, recipe=preset.recipe.lasting(epochs)), find_learner(method.learner), seed=0
    )
    return LongTailExperiment(config, reporter=reporter).run(folder, [method.corrector], EvidencePlan(2))[0]


@pytest.mark.parametrize("name", NAMES)
def test_it_learns(name: str, tmp_path: Path) -> None:
    row = run(name, tmp_path / "run", epochs=8)
    assert row["learner"] == name
    assert row["overall"] > 0.5  # chance is 0.1


@pytest.mark.parametrize("name", NAMES)
def test_interrupted_runs_end_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    """In the middle of the last of three epochs, the only one in which deferred methods are at work."""
    run(name, tmp_path / "whole", epochs=3)
    with pytest.raises(Interrupted):
        run(name, tmp_path / "cut", epochs=3, reporter=StopIn(3))
    assert max((tmp_path / "cut" / "checkpoints").iterdir()).name == "epoch-00003-batch-000005.safetensors"
    run(name, tmp_path / "cut", epochs=3)
    for file in ("test_logits.safetensors", "rows.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
