"""A run on digits-LT as correctors get it, but for the training: its network is as it was drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from lightning.fabric import Fabric

from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.data import load_data
from energyalign.longtail.learners import find_learner
from energyalign.longtail.presets import preset_for
from energyalign.longtail.setting import Setting
from energyalign.longtail.trained import Trained
from energyalign.train.randomness import seed_torch
from energyalign.train.reporter import Reporter
from energyalign.train.run_directory import RunDirectory

torch.set_num_threads(1)


def untrained_run(folder: Path, *, head: str = "linear", learner: str = "ce", epochs: int = 1) -> Trained:
    """In evaluation mode, with batch statistics that differ from those of a new network."""
    preset = preset_for("digits", 50)
    preset = replace(preset, head=head, recipe=preset.recipe.lasting(epochs))
    config = LongTailConfig.from_preset(preset, find_learner(learner), seed=0)
    data = load_data(config)
    counts = torch.tensor(data.counts, dtype=torch.float32)
    setting = Setting(config, data.train, counts, 0, torch.device("cpu"))
    seed_torch(0, "network")
    network = config.learner.network(setting)
    with torch.no_grad():
        network.train()(next(setting.loader().epoch(1)).images)
    network.eval()
    fabric = Fabric(accelerator="cpu", devices=1)
    return Trained(network, setting, data, run=RunDirectory(folder), fabric=fabric, reporter=Reporter())
