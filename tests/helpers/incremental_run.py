"""Short incremental runs on digits, with or without a Ctrl-C in the middle."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric

from energyalign.experiments.correctors.base import RunSetting
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.learners import FineTuning
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.experiments.incremental.stream import ClassStream, load_stream
from energyalign.experiments.train.checkpoint import Position
from energyalign.experiments.train.reporter import Reporter

torch.set_num_threads(1)


class StopAt(Reporter):
    """Reporter that raises Ctrl-C after a batch of an epoch of a stage, for example of ``step 2 of 5``."""

    def __init__(self, stage: str, *, epoch: int, batch: int) -> None:
        self.wanted, self.position = stage, (epoch, batch)
        self.current = ""

    def stage(self, name: str) -> Reporter:
        self.current = name
        return self

    def batch_done(self, position: Position, lr: float) -> None:  # noqa: ARG002
        if (self.current, position.epoch, position.batch) == (self.wanted, *self.position):
            os.kill(os.getpid(), signal.SIGINT)


def digits_config(
    learner: FineTuning, *, epochs: int, n_steps: int = 5, batch_size: int = 32, memory: str = "random:40",
    corrector: str = "raw", head: str = "linear", seed: int = 0,
) -> IncrementalConfig:  # fmt: skip
    """Make a config on digits with this number of steps and epochs."""
    preset = PRESETS["digits-il-5"]
    recipe = replace(preset.recipe.lasting(epochs), batch_size=batch_size)
    return IncrementalConfig.from_preset(
        replace(preset, n_steps=n_steps, head=head, recipe=recipe), learner, seed=seed,
        memory=MemoryPlan.parse(memory, 40), corrector=corrector,
    )  # fmt: skip


def setting_of(config: IncrementalConfig) -> RunSetting:
    """Return the setting that correctors check before training."""
    return RunSetting(config, load_stream(config).train, "this")


def run_digits(
    folder: Path, config: IncrementalConfig, *correctors: str, reporter: Reporter | None = None,
    per_class: int | None = None, fabric: Fabric | None = None,
) -> list[Row]:  # fmt: skip
    """Run, and return the rows of these correctors; by default of the network as trained.

    If `per_class` is given, train on the first `per_class` training images of each class only.
    """
    stream = load_stream(config)
    if per_class is not None:
        stream = few(stream, per_class)
    experiment = IncrementalExperiment(config, stream=stream, reporter=reporter, fabric=fabric)
    return experiment.run(folder, correctors or ("raw",))


def few(stream: ClassStream, per_class: int) -> ClassStream:
    """Keep the first training images of each class."""
    labels = stream.train.labels
    kept = np.concatenate([np.flatnonzero(labels == k)[:per_class] for k in np.unique(labels)])
    return replace(stream, train=stream.train.subset(kept))


def bytes_of_steps(folder: Path) -> dict[str, bytes]:
    """Return all files that must be equal after an interruption: networks, memories, records and rows."""
    files = [*folder.glob("step-*/**/*.safetensors"), *folder.glob("step-*/state.json"), folder / "rows.jsonl"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}
