"""The bilateral-branch network: two last blocks on one trunk, for every backbone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from energyalign.experiments.nets.bbn import TwoBranches
from energyalign.experiments.nets.registry import BACKBONES

QUICK = ["resnet32", "resnet8", "small-cnn", "resnet18"]  # one of each kind
LARGE = ["resnet50", "resnext50"]


def backbone(name: str, in_channels: int = 3) -> nn.Module:
    return BACKBONES[name].make(in_channels).eval()  # the features of an image do not depend on its batch


@pytest.fixture
def net() -> TwoBranches:
    return backbone("resnet32-bbn")


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32)


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def with_gradient(module: nn.Module) -> set[str]:
    return {name.split(".")[0] for name, parameter in module.named_parameters() if parameter.grad is not None}


def test_parameters_are_as_many_as_in_the_literature(net: TwoBranches) -> None:
    assert n_parameters(net) == 537_488


def test_the_last_block_exists_twice(net: TwoBranches) -> None:
    assert [len(stage) for stage in (net.trunk.stage1, net.trunk.stage2, net.trunk.stage3)] == [5, 5, 4]
    assert not torch.equal(net.cb_block.conv1.weight, net.rb_block.conv1.weight)


@pytest.mark.parametrize("name", [*QUICK, *LARGE])
def test_it_is_the_backbone_with_one_block_more(name: str) -> None:
    """The number of parameters identifies the block: in ResNet-50 a bottleneck with 4,462,592."""
    blocks = {"resnet32": 73_984, "resnet8": 55_552, "small-cnn": 36_992, "resnet18": 4_720_640,
              "resnet50": 4_462_592, "resnext50": 4_497_408}  # fmt: skip
    two = backbone(f"{name}-bbn")
    assert type(two) is TwoBranches
    assert n_parameters(two) == n_parameters(backbone(name)) + blocks[name]
    assert n_parameters(two.cb_block) == n_parameters(two.rb_block) == blocks[name]


@pytest.mark.parametrize("name", [*QUICK, *LARGE])
def test_blocks_are_initialised_each_on_its_own_and_as_those_of_the_backbone(name: str) -> None:
    two = backbone(f"{name}-bbn")
    drawn = [
        (ours, other)
        for ours, other in zip(two.cb_block.parameters(), two.rb_block.parameters(), strict=True)
        if ours.ndim > 1
    ]
    assert drawn
    for ours, other in drawn:
        assert not torch.equal(ours, other)
        assert ours.std().item() == pytest.approx(other.std().item(), rel=0.1)


@pytest.mark.parametrize("name", QUICK)
def test_one_branch_is_the_backbone_as_it_was(name: str, images: torch.Tensor) -> None:
    torch.manual_seed(1)
    one = backbone(name)
    torch.manual_seed(1)
    two = backbone(f"{name}-bbn")
    assert two.n_features == 2 * one.n_features
    with torch.no_grad():
        torch.testing.assert_close(two.conventional_features(images), one(images))


@pytest.mark.parametrize("name", QUICK)
def test_the_conventional_branch_comes_first(name: str, images: torch.Tensor) -> None:
    net = backbone(f"{name}-bbn")
    features = net(images)
    half = net.n_features // 2
    assert features.shape == (3, net.n_features)
    assert features.min() >= 0
    torch.testing.assert_close(features[:, :half], net.conventional_features(images))
    torch.testing.assert_close(features[:, half:], net.rebalancing_features(images))
    assert not torch.allclose(features[:, :half], features[:, half:])


@pytest.mark.parametrize("name", QUICK)
def test_each_branch_trains_its_block_and_the_trunk_they_share(name: str, images: torch.Tensor) -> None:
    net = backbone(f"{name}-bbn")
    net.conventional_features(images).sum().backward()
    assert with_gradient(net) == {"trunk", "cb_block"}
    net.zero_grad(set_to_none=True)
    net.rebalancing_features(images).sum().backward()
    assert with_gradient(net) == {"trunk", "rb_block"}


def test_gradients_of_two_batches_add_up_in_the_trunk(net: TwoBranches, images: torch.Tensor) -> None:
    others = torch.randn(3, 3, 32, 32)
    weight = net.trunk.conv.weight
    alone = [
        torch.autograd.grad(features.sum(), weight)[0]
        for features in (net.conventional_features(images), net.rebalancing_features(others))
    ]
    both = net.conventional_features(images).sum() + net.rebalancing_features(others).sum()
    torch.testing.assert_close(torch.autograd.grad(both, weight)[0], alone[0] + alone[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", QUICK)
def test_grey_images(name: str) -> None:
    net = backbone(f"{name}-bbn", in_channels=1)
    assert net(torch.randn(2, 1, 32, 32)).shape == (2, net.n_features)
