"""RIDE: the arguments of its loss before and after the change, and its recipe."""

from __future__ import annotations

import pytest
import torch
from tiny_setting import TinyBatch, says, tiny_setting

from energyalign.experiments.longtail.learners.ride import Ride, class_temperatures, ride_loss
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.losses.class_balanced import class_balanced_weights
from energyalign.experiments.losses.ldam import ldam_margins
from energyalign.experiments.nets.ride import ExpertsNetwork
from energyalign.experiments.train.recipe import SGD

COUNTS = torch.tensor([16.0, 4.0, 1.0])


@pytest.mark.parametrize("epoch", [160, 161])
def test_classes_weigh_more_and_are_colder_late(epoch: int) -> None:
    logits, labels = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 2])
    loss = Ride().loss(tiny_setting(Ride()))(says(logits), TinyBatch(torch.zeros(4, 3, 8, 8), labels), epoch)
    late = epoch > 160
    expected = ride_loss(
        logits, labels, 30 * ldam_margins(COUNTS, 0.5), class_balanced_weights(COUNTS, 0.9999) if late else None,
        temperatures=class_temperatures(COUNTS, 0.05) if late else torch.ones(3), diversity=0.45,
    )  # fmt: skip
    torch.testing.assert_close(loss, expected)


def test_the_network_is_its_own() -> None:
    setting = tiny_setting(Ride())
    network = Ride().network(setting)
    assert type(network) is ExpertsNetwork
    assert (setting.config.head, float(network.head.scale)) == ("cosine", 30.0)


def test_the_recipe_is_the_originals() -> None:
    on_cifar = Ride().recipe(PRESETS["cifar100-lt-100"])
    assert on_cifar.optimizer == SGD(0.1, weight_decay=5e-4, nesterov=True)
    assert [round(on_cifar.lr(epoch) / 0.1, 6) for epoch in (160, 161, 181)] == [1.0, 0.01, 0.0001]
    cell = PRESETS["imagenet-lt-resnet50"]
    on_photographs = Ride().recipe(cell)
    assert on_photographs.optimizer == SGD(cell.recipe.optimizer.lr, weight_decay=2e-4, nesterov=True)
    assert on_photographs.schedule == cell.recipe.schedule
