"""Losses and networks of all learners on other backbones, grey and colour, and through Fabric."""

from __future__ import annotations

import math

import pytest
import torch
from lightning_fabric import Fabric
from tiny_setting import TinyBatch, tiny_setting

from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.train.recipe import SGD

NAMES = [
    "focal", "mixup", "manifold-mixup", "ce-drw", "ce-drs", "cb-focal", "ldam-drw", "la-loss", "la-loss-ldam",
    "lade", "ride",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_step_through_fabric(name: str, precision: str) -> None:
    learner = find_learner(name)
    setting = tiny_setting(learner, channels=1)
    network = learner.network(setting)
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    model, optimizer = fabric.setup(network, SGD(0.1).make(learner.parameters(network)))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    for epoch in (1, 200):
        batch = next(learner.batches(setting).epoch(epoch))
        loss = learner.loss(setting)(model, batch, epoch)
        assert loss.dtype == torch.float32
        fabric.backward(loss)
    optimizer.step()
    for was, parameter in zip(before, network.parameters(), strict=True):
        assert torch.isfinite(parameter).all()
        assert not torch.equal(was, parameter)


@pytest.mark.parametrize("backbone", ["resnet32", "resnet32-bbn", "resnet8", "resnet18"])
@pytest.mark.parametrize("name", ["manifold-mixup", "cb-focal", "ldam-drw"])
def test_backbones(name: str, backbone: str) -> None:
    learner = find_learner(name)
    setting = tiny_setting(learner, backbone=backbone)
    images = torch.randn(4, 3, 32, 32)
    network = learner.network(setting)
    assert torch.isfinite(learner.loss(setting)(network, TinyBatch(images, torch.tensor([0, 1, 2, 0])), 200))
    assert network.eval()(images).shape == (4, 3)


def test_cb_focal_begins_with_the_probability_of_a_guess() -> None:
    """sigmoid(-log(C - 1)) = 1 / C."""
    learner = find_learner("cb-focal")
    bias = learner.network(tiny_setting(learner)).head.bias
    torch.testing.assert_close(bias.detach(), torch.full((3,), -math.log(2)))
    torch.testing.assert_close(torch.sigmoid(bias.detach()), torch.full((3,), 1 / 3))


def test_cb_focal_has_no_decay_on_the_bias_of_the_head() -> None:
    learner = find_learner("cb-focal")
    network = learner.network(tiny_setting(learner))
    optimizer = SGD(0.1, weight_decay=0.01).make(learner.parameters(network))
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]
    assert optimizer.param_groups[1]["params"][0] is network.head.bias
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(network.parameters()))
