"""Mixup and Manifold Mixup as learners: which inputs they mix, how much, and evaluation without mixing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_setting import TinyBatch, says, tiny_setting
from torch.nn import functional as F

from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.preparation import LargePreparation, Normalisation
from energyalign.experiments.longtail.experiment import Setting
from energyalign.experiments.longtail.learners import CrossEntropy, find_learner
from energyalign.experiments.losses import mixup as mixing
from energyalign.experiments.losses.mixup import Mixture

BATCH = TinyBatch(torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 0, 1]))
SWAPPED = torch.tensor([1, 0, 3, 2, 5, 4])


def always(monkeypatch: pytest.MonkeyPatch, mixture: Mixture) -> list[float]:
    """Replace the drawn mixture by a fixed one; return the requested alphas."""
    alphas: list[float] = []

    def draw(_n: int, alpha: float, _device: torch.device) -> Mixture:
        alphas.append(alpha)
        return mixture

    monkeypatch.setattr(mixing, "draw_mixture", draw)
    return alphas


def network_of(learner: CrossEntropy) -> torch.nn.Module:
    torch.manual_seed(1)
    return learner.network(tiny_setting(learner)).eval()


@pytest.mark.parametrize("name", ["mixup", "manifold-mixup"])
def test_weight_one_is_cross_entropy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = find_learner(name)
    network = network_of(learner)
    always(monkeypatch, Mixture(1.0, SWAPPED))
    loss = learner.loss(tiny_setting(learner))(network, BATCH, 1)
    assert torch.equal(loss, F.cross_entropy(network(BATCH.images), BATCH.labels))


def test_mixup_mixes_images(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = find_learner("mixup")
    network = network_of(learner)
    always(monkeypatch, Mixture(0.25, SWAPPED))
    loss = learner.loss(tiny_setting(learner))(network, BATCH, 1)
    logits = network(0.25 * BATCH.images + 0.75 * BATCH.images[SWAPPED])
    soft = 0.25 * F.one_hot(BATCH.labels, 3) + 0.75 * F.one_hot(BATCH.labels[SWAPPED], 3)
    torch.testing.assert_close(loss, -(soft * logits.log_softmax(1)).sum(1).mean())


def test_manifold_mixup_mixes_features(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = find_learner("manifold-mixup")
    network = network_of(learner)
    always(monkeypatch, Mixture(0.25, SWAPPED))
    loss = learner.loss(tiny_setting(learner))(network, BATCH, 1)
    features = network.backbone(BATCH.images)
    logits = network.head(0.25 * features + 0.75 * features[SWAPPED])
    soft = 0.25 * F.one_hot(BATCH.labels, 3) + 0.75 * F.one_hot(BATCH.labels[SWAPPED], 3)
    torch.testing.assert_close(loss, -(soft * logits.log_softmax(1)).sum(1).mean())


def test_a_network_that_can_mix_is_the_plain_one_in_the_test() -> None:
    plain, mixing = network_of(find_learner("ce")), network_of(find_learner("manifold-mixup"))
    assert list(plain.state_dict()) == list(mixing.state_dict())
    assert torch.equal(plain(BATCH.images), mixing(BATCH.images))


def photographs(setting: Setting) -> Setting:
    """Return the same setting with a set of files."""
    files = DiskFiles(Path("nowhere"), ("a.jpg", "b.jpg", "c.jpg"))
    preparation = LargePreparation(Normalisation((0.5,) * 3, (0.5,) * 3))
    images = FileImages("files", files, np.arange(3), np.arange(3), ("a", "b", "c"), preparation)
    return replace(setting, train=images)


@pytest.mark.parametrize(("name", "small", "large"), [("mixup", 1.0, 0.2), ("manifold-mixup", 1.0, 1.0)])
def test_alpha_of_small_images_and_of_photographs(
    name: str, small: float, large: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = find_learner(name)
    alphas = always(monkeypatch, Mixture(0.5, SWAPPED))
    for setting in (tiny_setting(learner), photographs(tiny_setting(learner))):
        learner.loss(setting)(says(torch.zeros(6, 3)), BATCH, 1)
    assert alphas == [small, large]


def test_cb_focal_of_photographs_has_the_values_of_the_imagenet_script() -> None:
    """With zero logits each of three terms is 2^-gamma log 2, and the weights do not depend on them."""
    learner, logits = find_learner("cb-focal"), says(torch.zeros(6, 3))
    setting = photographs(tiny_setting(learner, (5000, 500, 50)))
    weights = (1 - 0.999) / (1 - 0.999 ** np.array([5000.0, 500.0, 50.0]))
    weights *= 3 / weights.sum()
    expected = weights[BATCH.labels].mean() * 3 * 2**-0.5 * np.log(2)
    assert float(learner.loss(setting)(logits, BATCH, 1)) == pytest.approx(expected)
