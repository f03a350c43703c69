"""A run on digits-LT in the form that correctors get, but with an untrained network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from lightning_fabric import Fabric

from energyalign.experiments.correctors.base import Corrected
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.outputs import Floats32, for_inference
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import Setting, load_data
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.presets import preset_for
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory

torch.set_num_threads(1)


def untrained_run(folder: Path, *, head: str = "linear", learner: str = "ce", epochs: int = 1) -> Trained:
    """Return the run in evaluation mode, with batch statistics unlike a new network's."""
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
    return Trained(
        network=network, ground=setting, evidence_seed=config.seed, run=RunDirectory(folder), fabric=fabric,
        reporter=Reporter(), network_sha256="", sizes=(data.train.n_classes,),
    )  # fmt: skip


def images_of_test(trained: Trained) -> ImageSet:
    """Return the test images of its data set, which a `Trained` does not have."""
    return load_data(trained.ground.config).test


def scores_of_test(trained: Trained, corrected: Corrected) -> Floats32:
    """Return the scores of a corrected network for the test images."""
    if corrected.network.backbone is trained.network.backbone:
        return trained.scores(corrected.network.head, trained.features(images_of_test(trained)))
    return trained.features(images_of_test(trained), for_inference(corrected.network))
