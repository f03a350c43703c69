"""De-confound: the original's network on CIFAR, and its colour jitter on ImageNet-LT only."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_setting import tiny_setting

from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.preparation import IMAGENET_MEAN, IMAGENET_STD, LargePreparation, Normalisation
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.learners.de_confound import DeConfound
from energyalign.experiments.longtail.methods import METHODS
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.nets.heads import CausalNormHead


@pytest.mark.parametrize("row", ["de-confound", "de-confound-tde"])
@pytest.mark.parametrize("preset", ["cifar10-lt-100", "cifar100-lt-100"])
def test_the_network_on_cifar_is_that_of_bbn(row: str, preset: str) -> None:
    """128 features: each half is the output of one block and belongs to one part of the head (K = 2)."""
    learner = find_learner(METHODS[row].learner)
    config = LongTailConfig.from_preset(PRESETS[preset], learner, seed=0)
    assert (config.backbone, config.head) == ("resnet32-bbn", "causal-norm")
    setting = tiny_setting(DeConfound())
    network = learner.network(replace(setting, config=config))
    assert isinstance(network.head, CausalNormHead)
    assert (network.head.in_features, network.head.n_parts) == (128, 2)
    assert sum(parameter.numel() for parameter in network.backbone.parameters()) == 537_488


@pytest.mark.parametrize("preset", ["imagenet-lt-resnet50", "inaturalist-90", "digits-lt-50"])
def test_other_networks_stay(preset: str) -> None:
    config = LongTailConfig.from_preset(PRESETS[preset], DeConfound(), seed=0)
    assert (config.backbone, config.head) == (PRESETS[preset].backbone, "causal-norm")


@pytest.mark.parametrize(("preset", "jitter"), [("imagenet-lt-resnet50", 0.4), ("inaturalist-90", 0.0)])
def test_jitter_is_for_imagenet_lt(preset: str, jitter: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The images of the setting are not changed, because evidence and other learners use them."""
    setting = tiny_setting(DeConfound())
    preparation = LargePreparation(Normalisation(IMAGENET_MEAN, IMAGENET_STD))
    images = FileImages(
        "photographs", DiskFiles(root=None, names=("a", "b", "c")), torch.arange(3).numpy(), setting.train.labels[:3],
        setting.train.class_names, preparation,
    )  # type: ignore[arg-type]  # fmt: skip
    config = LongTailConfig.from_preset(PRESETS[preset], DeConfound(), seed=0)
    seen = []
    monkeypatch.setattr(type(setting), "loader", lambda self: seen.append(self.train.preparation.jitter))
    DeConfound().batches(replace(setting, config=config, train=images))
    assert seen == [jitter]
    assert images.preparation.jitter == 0.0
