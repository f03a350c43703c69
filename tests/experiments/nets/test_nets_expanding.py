"""Backbones side by side: features of all, and only the newest is trained."""

from __future__ import annotations

import copy

import torch
from torch import nn

from energyalign.experiments.engine.outputs import for_inference
from energyalign.experiments.nets.backbones import SmallCnn
from energyalign.experiments.nets.expanding import ExpandingBackbone, ExpandingNetwork, widen


def test_only_the_newest_learns_and_the_others_stay() -> None:
    first, second = SmallCnn(1), SmallCnn(1)
    backbone = ExpandingBackbone([first, second])
    images = torch.randn(6, 1, 8, 8)
    before = copy.deepcopy(backbone.state_dict())
    backbone.train()
    backbone(images).square().sum().backward()
    assert all(value.grad is None for value in first.parameters())
    assert all(value.grad is not None for value in second.parameters())
    moved = {name for name, value in backbone.state_dict().items() if not torch.equal(value, before[name])}
    assert moved
    assert all(name.startswith("parts.1.") for name in moved)


def test_features_one_after_another_and_an_auxiliary_head_on_the_last() -> None:
    first, second = SmallCnn(1).eval(), SmallCnn(1).eval()
    network = ExpandingNetwork(ExpandingBackbone([first, second]), nn.Linear(128, 3), nn.Linear(64, 2)).eval()
    images = torch.randn(4, 1, 8, 8)
    logits, auxiliary = network(images, with_auxiliary=True)
    torch.testing.assert_close(logits, network.head(torch.cat([first(images), second(images)], dim=1)))
    torch.testing.assert_close(auxiliary, network.auxiliary(second(images)))
    torch.testing.assert_close(network(images), logits)
    torch.testing.assert_close(for_inference(network)(images), logits, rtol=1e-4, atol=1e-5)


def test_a_wider_head_says_the_same_of_old_classes_by_old_features() -> None:
    head = nn.Linear(3, 2)
    larger = widen(head, 5, 4)
    features = torch.randn(6, 3)
    padded = torch.cat([features, torch.zeros(6, 2)], dim=1)
    torch.testing.assert_close(larger(padded)[:, :2], head(features))
    assert larger.weight.shape == (4, 5)
    assert widen(nn.Linear(3, 2, bias=False), 5, 4).bias is None
