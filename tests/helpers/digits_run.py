"""Train rows of the paper's tables on digits, with or without a Ctrl-C in the middle."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from lightning_fabric import Fabric

from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.methods import METHODS
from energyalign.experiments.longtail.presets import preset_for
from energyalign.experiments.train.checkpoint import Position
from energyalign.experiments.train.reporter import Reporter


class StopIn(Reporter):
    """Reporter that raises Ctrl-C in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def batch_done(self, position: Position, lr: float) -> None:  # noqa: ARG002
        if (position.epoch, position.batch) == (self.epoch, 5):
            os.kill(os.getpid(), signal.SIGINT)


def run_rows(
    names: list[str], folder: Path, *, epochs: int, reporter: Reporter | None = None, fabric: Fabric | None = None
) -> list[Row]:
    """Train and measure these rows, which share a training, for a few epochs."""
    methods, preset = [METHODS[name] for name in names], preset_for("digits", 50)
    preset = replace(preset, head=methods[0].head or preset.head, recipe=preset.recipe.lasting(epochs))
    config = LongTailConfig.from_preset(preset, find_learner(methods[0].learner), seed=0)
    correctors = [method.corrector for method in methods]
    return LongTailExperiment(config, reporter=reporter, fabric=fabric).run(folder, correctors, EvidencePlan(2))
