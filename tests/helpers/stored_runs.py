"""Short real runs on digits, with all files that the report reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from energyalign.experiments.correctors import STANDARD
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.methods import find_method as find_incremental
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment
from energyalign.experiments.longtail.presets import PRESETS

EVIDENCE = EvidencePlan(5)


def long_tail_run(folder: Path, *, seed: int = 0, epochs: int = 3) -> Path:
    """Train by cross-entropy and measure the standard correctors."""
    preset = PRESETS["digits-lt-50"]
    config = LongTailConfig.from_preset(replace(preset, recipe=preset.recipe.lasting(epochs)), seed=seed)
    LongTailExperiment(config, command=f"energyalign longtail digits --seed {seed}").run(folder, STANDARD, EVIDENCE)
    return folder


def incremental_run(folder: Path, *, n_steps: int = 2, epochs: int = 2) -> Path:
    """Train by distillation in few steps and measure energy aligning."""
    preset = INCREMENTAL["digits-il-5"]
    preset = replace(preset, n_steps=n_steps, recipe=preset.recipe.lasting(epochs))
    config = config_of(find_incremental("ea"), preset, seed=0)
    IncrementalExperiment(config).run(folder, ("raw", "ea", "logit-adjustment"), EVIDENCE)
    return folder
