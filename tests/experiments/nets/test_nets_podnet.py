"""Proxies by hand, and the maps of every kind of backbone."""

from __future__ import annotations

import math

import pytest
import torch

from energyalign import EnergyAlignError
from energyalign.experiments.nets.heads import grow
from energyalign.experiments.nets.podnet import PodNetwork, ProxyHead, features_and_maps
from energyalign.experiments.nets.registry import BACKBONES


def test_proxies_by_hand() -> None:
    """Nine proxies are orthogonal to the features and one is parallel: weights 1 and e for cosines 0 and 1."""
    head = ProxyHead(2, 2, scale=3.0)
    with torch.no_grad():
        head.weight[0] = torch.tensor([0.0, 5.0] * 9 + [2.0, 0.0])
        head.weight[1] = torch.tensor([-1.0, 0.0] * 10)
    logits = head(torch.tensor([[7.0, 0.0]]))
    torch.testing.assert_close(logits, torch.tensor([[3.0 * math.e / (9 + math.e), -3.0]]))
    logits.sum().backward()
    assert head.scale.grad is not None


def test_a_head_of_proxies_grows() -> None:
    head = ProxyHead(4, 2)
    larger = grow(head, 5)
    features = torch.randn(3, 4)
    torch.testing.assert_close(larger(features)[:, :2], head(features))
    assert larger.proxies().shape == (5, 10, 4)


@pytest.mark.parametrize(
    ("backbone", "size", "shapes"),
    [
        ("resnet8", 8, [(16, 8, 8), (32, 4, 4), (64, 2, 2)]),
        ("small-cnn", 8, [(32, 8, 8), (64, 4, 4), (64, 2, 2)]),
        ("resnet18", 32, [(64, 8, 8), (128, 4, 4), (256, 2, 2), (512, 1, 1)]),
    ],
)
def test_maps(backbone: str, size: int, shapes: list[tuple[int, ...]]) -> None:
    net = BACKBONES[backbone].make().eval()
    images = torch.randn(2, 3, size, size)
    features, maps = features_and_maps(net, images)
    assert [tuple(of_stage.shape[1:]) for of_stage in maps] == shapes
    torch.testing.assert_close(features, maps[-1].mean(dim=(2, 3)))
    network = PodNetwork(net, ProxyHead(features.shape[1], 3))
    logits, again, _ = network(images, with_maps=True)
    torch.testing.assert_close(again, features)
    torch.testing.assert_close(network(images), logits)


@pytest.mark.parametrize("backbone", ["identity", "mlp", "rps-small", "resnet8-bbn"])
def test_no_maps_no_podnet(backbone: str) -> None:
    with pytest.raises(EnergyAlignError, match=r"maps between the stages of a ResNet, and .* has none"):
        features_and_maps(BACKBONES[backbone].make(), torch.zeros(1, 3, 8, 8))
