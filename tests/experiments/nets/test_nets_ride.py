"""Experts on shared first blocks, and their head."""

from __future__ import annotations

import pytest
import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.outputs import for_inference
from energyalign.experiments.nets.ride import ExpertsHead, ExpertsNetwork, make_experts


def experts(backbone: str = "small-cnn", in_channels: int = 1) -> ExpertsNetwork:
    return make_experts(backbone, 4, scale=30.0, in_channels=in_channels)


def test_logits_are_the_mean_of_cosines_of_each_expert() -> None:
    """Each expert has two features; class 0 is parallel to the features, class 1 is orthogonal for two experts."""
    head = ExpertsHead(6, 2, 30.0)
    head.weight.data = torch.tensor([[3.0, 0, 0, 2.0, 1.0, 1.0], [0, 1.0, 0, 5.0, 1.0, -1.0]])
    features = torch.tensor([[2.0, 0, 0, 7.0, 4.0, 4.0]])
    torch.testing.assert_close(head.of_each(features), torch.tensor([[[30.0, 0], [30.0, 30.0], [30.0, 0]]]))
    torch.testing.assert_close(head(features), torch.tensor([[30.0, 10.0]]))


@pytest.mark.parametrize(("backbone", "size", "features"), [("small-cnn", 8, 144), ("resnet8", 16, 144)])
def test_experts_share_the_trunk_and_nothing_else(backbone: str, size: int, features: int) -> None:
    network, images = experts(backbone).eval(), torch.randn(3, 1, size, size)
    assert network.backbone.n_features == features
    each = network(images, True)
    assert each.shape == (3, 3, 4)
    torch.testing.assert_close(network(images), each.mean(dim=1))
    assert not torch.allclose(each[:, 0], each[:, 1])
    each[:, 0].sum().backward()
    trunk, first, second, third = (
        [bool(parameter.grad.any()) for parameter in part.parameters()]
        for part in (network.backbone.trunk, *network.backbone.branches)
    )
    assert all(trunk + first)
    assert not any(second + third)
    torch.testing.assert_close(for_inference(network)(images), network(images), rtol=1e-4, atol=1e-4)


def test_resnet32_has_experts_of_three_quarters_of_the_channels() -> None:
    network = experts("resnet32", 3)
    assert {tuple(branch[1][-1].conv2.weight.shape[:2]) for branch in network.backbone.branches} == {(48, 48)}


def test_resnets_of_torchvision() -> None:
    network = experts("resnet18", 3).eval()
    assert network.backbone.n_features == 3 * 512
    assert network(torch.randn(1, 3, 32, 32)).shape == (1, 4)


def test_backbones_without_known_blocks_are_refused() -> None:
    with pytest.raises(EnergyAlignError, match=r"does not know the blocks of mlp: choose one of resnet32, resnet8"):
        experts("mlp")
