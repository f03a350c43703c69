"""Short real runs on digits for all figures, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from drawn import Stored

from energyalign.experiments.correctors import STANDARD
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.stored import measured_runs
from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.methods import find_method as find_incremental
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment, load_data
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.recipe import Adam

EVIDENCE = EvidencePlan(5)


@pytest.fixture(scope="session")
def long_tail(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Train cross-entropy with two seeds and several numbers of clusters, another head, and another optimizer."""
    torch.set_num_threads(1)
    folder: Path = tmp_path_factory.mktemp("long-tail")
    preset = PRESETS["digits-lt-50"]
    preset = replace(preset, recipe=preset.recipe.lasting(2))
    trainings = {
        "a-ce": (preset, (0, 1), (*STANDARD, "ea-M1", "ea-M2", "ea-M4")),
        "b-linear": (replace(preset, head="linear"), (0,), ("raw", "ea", "tau-norm")),
        "c-adam": (replace(preset, recipe=replace(preset.recipe, optimizer=Adam())), (0,), ("raw", "ea")),
    }
    data = load_data(LongTailConfig.from_preset(preset, seed=0))
    for name, (cell, seeds, correctors) in trainings.items():
        for seed in seeds:
            experiment = LongTailExperiment(LongTailConfig.from_preset(cell, seed=seed), data=data)
            experiment.run(folder / name / f"seed-{seed}", correctors, EVIDENCE)
    return Stored(folder, measured_runs([folder]))


@pytest.fixture(scope="session")
def incremental(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Train five steps of two classes, with two heads."""
    torch.set_num_threads(1)
    folder: Path = tmp_path_factory.mktemp("incremental")
    preset = INCREMENTAL["digits-il-5"]
    preset = replace(preset, recipe=preset.recipe.lasting(1))
    for method, correctors in (("ea", ("raw", "ea", "ea-marginal", "logit-adjustment")), ("ea-linear", ("raw", "ea"))):
        experiment = IncrementalExperiment(config_of(find_incremental(method), preset, seed=0))
        experiment.run(folder / method / "seed-0", correctors, EVIDENCE)
    return Stored(folder, measured_runs([folder]))
