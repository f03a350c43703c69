"""The bilateral-branch network: two last blocks on one trunk."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from energyalign.nets import BbnResNet32


@pytest.fixture
def net() -> BbnResNet32:
    return BbnResNet32().eval()  # so that features of an image do not depend on its batch


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32)


def with_gradient(module: nn.Module) -> set[str]:
    return {name.split(".")[0] for name, parameter in module.named_parameters() if parameter.grad is not None}


def test_parameters_are_as_many_as_in_the_literature(net: BbnResNet32) -> None:
    assert sum(parameter.numel() for parameter in net.parameters()) == 537_488


def test_the_last_block_exists_twice(net: BbnResNet32) -> None:
    assert [len(stage) for stage in (net.trunk.stage1, net.trunk.stage2, net.trunk.stage3)] == [5, 5, 4]
    assert not torch.equal(net.cb_block.conv1.weight, net.rb_block.conv1.weight)


def test_the_conventional_branch_comes_first(net: BbnResNet32, images: torch.Tensor) -> None:
    features = net(images)
    assert features.shape == (3, net.n_features) == (3, 128)
    assert features.min() >= 0
    torch.testing.assert_close(features[:, :64], net.conventional_features(images))
    torch.testing.assert_close(features[:, 64:], net.rebalancing_features(images))
    assert not torch.allclose(features[:, :64], features[:, 64:])


def test_each_branch_trains_its_block_and_the_trunk_they_share(net: BbnResNet32, images: torch.Tensor) -> None:
    net.conventional_features(images).sum().backward()
    assert with_gradient(net) == {"trunk", "cb_block"}
    net.zero_grad(set_to_none=True)
    net.rebalancing_features(images).sum().backward()
    assert with_gradient(net) == {"trunk", "rb_block"}


def test_gradients_of_two_batches_add_up_in_the_trunk(net: BbnResNet32, images: torch.Tensor) -> None:
    others = torch.randn(3, 3, 32, 32)
    weight = net.trunk.conv.weight
    alone = [
        torch.autograd.grad(features.sum(), weight)[0]
        for features in (net.conventional_features(images), net.rebalancing_features(others))
    ]
    both = net.conventional_features(images).sum() + net.rebalancing_features(others).sum()
    torch.testing.assert_close(torch.autograd.grad(both, weight)[0], alone[0] + alone[1], rtol=1e-3, atol=1e-4)


def test_grey_images() -> None:
    assert BbnResNet32(in_channels=1)(torch.randn(2, 1, 32, 32)).shape == (2, 128)
