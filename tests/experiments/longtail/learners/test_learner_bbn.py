"""BBN: its share, its batches, its loss by hand, and its network in training and evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.loader import Pair
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import Setting
from energyalign.experiments.longtail.learners.bbn import Bbn
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.nets.backbones import SmallCnn
from energyalign.experiments.nets.bbn import BbnNetwork, TwoBranches
from energyalign.experiments.nets.registry import BACKBONES
from energyalign.experiments.train.recipe import SGD, Adam
from energyalign.pytorch import align

torch.set_num_threads(1)

CIFAR10_LT_100 = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


def setting(counts: list[int], *, size: int = 2, backbone: str = "small-cnn", epochs: int = 200) -> Setting:
    labels = np.repeat(np.arange(len(counts)), counts)
    pixels = torch.randint(256, (len(labels), 1, size, size), generator=torch.Generator().manual_seed(0))
    train = MemoryImages(
        "toy", pixels.to(torch.uint8), labels, tuple(str(k) for k in range(len(counts))),
        SmallPreparation(Normalisation((0.5,), (0.25,)), padding=1),
    )  # fmt: skip
    preset = PRESETS["cifar10-lt-100"]
    preset = replace(preset, backbone=backbone, recipe=preset.recipe.lasting(epochs))
    config = LongTailConfig.from_preset(preset, Bbn(), seed=0)
    return Setting(config, train, torch.tensor(counts, dtype=torch.float32), 0, torch.device("cpu"))


@pytest.mark.parametrize(("epoch", "share"), [(1, 1.0), (2, 1 - 1 / 40_000), (101, 0.75), (200, 1 - 0.995**2)])
def test_the_share_moves_from_the_first_branch_to_the_second(epoch: int, share: float) -> None:
    assert Bbn().share(epoch, 200) == pytest.approx(share)


def test_the_reversed_batches_are_drawn_from_the_tail() -> None:
    """For CIFAR-10 at imbalance 100: 40.2 % of the draws are of the rarest class, 0.40 % of the largest."""
    made = setting(CIFAR10_LT_100)
    batches = Bbn().batches(made)
    assert batches.n_batches == 97
    drawn, seen = np.zeros(10), np.zeros(10)
    for epoch in (1, 2, 3, 4):
        for pair in batches.epoch(epoch):
            seen += np.bincount(pair.labels, minlength=10)
            drawn += np.bincount(pair.other_labels, minlength=10)
    np.testing.assert_array_equal(seen, 4 * np.array(CIFAR10_LT_100))
    assert drawn.sum() == seen.sum()
    assert drawn[9] / drawn.sum() == pytest.approx(0.402, abs=0.008)
    assert drawn[0] / drawn.sum() == pytest.approx(0.0040, abs=0.0015)


def test_the_two_batches_are_augmented_each_on_its_own() -> None:
    """With one image, the batches differ only in their augmentation."""
    made = setting([64], size=4)
    made = replace(made, train=made.train.subset([0] * 64))
    pair = next(Bbn().batches(made).epoch(1))
    assert not torch.equal(pair.images, pair.other_images)


class Recorded(nn.Module):
    """Returns given logits and records its inputs."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, *asked: object) -> torch.Tensor:
        self.asked = asked
        return self.logits


def test_the_loss_by_hand() -> None:
    """Three classes with probabilities 0.5, 0.3, 0.2, labels 0 and 2; half-way through, so that a is 3/4."""
    model = Recorded(torch.log(torch.tensor([[0.5, 0.3, 0.2]])))
    pair = Pair(torch.zeros(1, 1, 4, 4), torch.tensor([0]), torch.ones(1, 1, 4, 4), torch.tensor([2]))
    loss = Bbn().loss(setting([3, 2, 1]))(model, pair, 101)
    assert float(loss) == pytest.approx(0.75 * -np.log(0.5) + 0.25 * -np.log(0.2))
    assert model.asked == (pair.images, pair.other_images, 0.75)


@pytest.fixture
def network() -> BbnNetwork:
    torch.manual_seed(0)
    made = Bbn().network(setting([3, 2, 1], size=8))
    assert isinstance(made, BbnNetwork)
    return made.eval()


def test_the_head_sees_both_branches_by_their_share(network: BbnNetwork) -> None:
    images, others = torch.randn(4, 1, 8, 8), torch.randn(4, 1, 8, 8)
    with torch.no_grad():
        conventional = network.backbone(images)[:, :64].numpy()
        rebalancing = network.backbone(others)[:, 64:].numpy()
        weight, bias = network.head.weight.numpy(), network.head.bias.numpy()
        for share in (1.0, 0.75, 0.0):
            wanted = 2 * share * conventional @ weight[:, :64].T + 2 * (1 - share) * rebalancing @ weight[:, 64:].T
            np.testing.assert_allclose(network(images, others, share), wanted + bias, rtol=1e-4, atol=1e-5)


def test_in_the_test_both_branches_see_the_same_image_with_factor_one(network: BbnNetwork) -> None:
    images = torch.randn(4, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(network(images), network(images, images, 0.5))
        torch.testing.assert_close(network(images), network.head(network.backbone(images)))


def test_each_branch_keeps_the_statistics_of_its_own_batches(network: BbnNetwork) -> None:
    """A branch that saw both batches would have running means of neither."""
    network.train()
    blocks = [network.backbone.cb_block, network.backbone.rb_block]
    with torch.no_grad():
        network(torch.randn(4, 1, 8, 8), torch.randn(4, 1, 8, 8), 0.5)
        trunk_seen = {int(m.num_batches_tracked) for m in network.backbone.trunk.modules() if hasattr(m, "momentum")}
        seen = [int(m.num_batches_tracked) for b in blocks for m in b.modules() if hasattr(m, "momentum")]
    assert trunk_seen == {2}
    assert seen == [1, 1]


def test_shifts_fold_into_it(network: BbnNetwork) -> None:
    images = torch.randn(6, 1, 8, 8)
    aligned = align(network, [(images, torch.arange(6) % 3)], counts=[30, 20, 10], estimator="prior")
    assert type(aligned) is BbnNetwork
    shifts = torch.tensor(aligned.shifts_.values, dtype=torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(aligned.eval()(images), network(images) + shifts)


def test_the_network_and_the_head_are_its_own() -> None:
    config = setting([3, 2, 1]).config
    assert (config.backbone, config.head) == ("small-cnn-bbn", "linear")
    assert Bbn().backbone("resnet32-bbn") == "resnet32-bbn"
    doubled = [name for name, entry in BACKBONES.items() if entry.split]
    assert {Bbn().backbone(name) for name in doubled} <= set(BACKBONES)
    network = Bbn().network(setting([3, 2, 1], size=8))
    assert type(network.backbone) is TwoBranches
    assert network.backbone.n_features == 2 * SmallCnn.n_features
    assert network.head.bias is not None


def test_the_recipe_is_the_originals_where_it_is_sgd() -> None:
    cell = PRESETS["cifar10-lt-100"]
    assert Bbn().recipe(cell).optimizer == SGD(0.1, momentum=0.9, weight_decay=2e-4, nesterov=True)
    assert Bbn().recipe(cell).schedule == cell.recipe.schedule
    plain = replace(cell, recipe=replace(cell.recipe, optimizer=SGD(0.1, momentum=0.0)))
    assert Bbn().recipe(plain).optimizer == SGD(0.1, momentum=0.0, weight_decay=2e-4)  # torch would refuse Nesterov
    adam = replace(cell, recipe=replace(cell.recipe, optimizer=Adam()))
    assert Bbn().recipe(adam) == adam.recipe


def test_the_weight_decay_on_inaturalist_is_the_originals() -> None:
    assert Bbn().recipe(PRESETS["inaturalist-90"]).optimizer == SGD(0.1, weight_decay=1e-4, nesterov=True)
