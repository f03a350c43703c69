"""ResNet-32 for CIFAR: its shortcut by hand, its size from the literature."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from energyalign import EnergyAlignError
from energyalign.experiments.nets.backbones import BasicBlock, CifarResNet, PaddedShortcut
from energyalign.experiments.nets.heads import LinearHead
from energyalign.experiments.nets.network import Network


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_shortcut_takes_every_second_pixel_and_pads_with_zero_channels() -> None:
    shortcut = PaddedShortcut(2, 4)
    images = torch.arange(1.0, 33.0).reshape(1, 2, 4, 4)
    nothing = [[0.0, 0.0], [0.0, 0.0]]
    expected = torch.tensor([[nothing, [[1.0, 3.0], [9.0, 11.0]], [[17.0, 19.0], [25.0, 27.0]], nothing]])
    assert torch.equal(shortcut(images), expected)
    assert n_parameters(shortcut) == 0


@pytest.mark.parametrize("size", [32, 28, 9, 7])
def test_the_shortcut_fits_the_convolutions(size: int) -> None:
    block = BasicBlock(16, 32)
    assert block(torch.randn(2, 16, size, size)).shape == (2, 32, math.ceil(size / 2), math.ceil(size / 2))


def test_a_widening_block_pads_a_quarter_of_its_channels_on_each_side() -> None:
    block = BasicBlock(16, 32).eval()
    with torch.no_grad():
        block.bn2.weight.zero_()  # so that only the shortcut is left
        images = torch.rand(1, 16, 4, 4)
        maps = block(images)
    assert torch.equal(maps[:, 8:24], images[:, :, ::2, ::2])
    assert not maps[:, :8].any()
    assert not maps[:, 24:].any()


def test_a_block_is_activated_after_the_sum() -> None:
    block = BasicBlock(16, 16).eval()
    images = torch.randn(2, 16, 5, 5)
    inner = F.relu(block.bn1(block.conv1(images)))
    torch.testing.assert_close(block(images), F.relu(block.bn2(block.conv2(inner)) + images))


def test_parameters_are_as_many_as_in_the_literature() -> None:
    assert n_parameters(CifarResNet()) == 463_504
    assert n_parameters(Network(CifarResNet(), LinearHead(64, 10))) == 464_154
    assert n_parameters(Network(CifarResNet(), LinearHead(64, 100))) == 470_004


@pytest.mark.parametrize(("blocks_per_stage", "depth"), [(1, 8), (3, 20), (5, 32)])
def test_depth_counts_the_convolutions_and_the_head(blocks_per_stage: int, depth: int) -> None:
    convolutions = [m for m in CifarResNet(blocks_per_stage).modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) + 1 == depth


def test_shapes_of_the_stages() -> None:
    net, shapes = CifarResNet(), {}
    for name in ("stage1", "stage2", "stage3"):
        getattr(net.trunk, name).register_forward_hook(
            lambda _module, _inputs, output, name=name: shapes.update({name: tuple(output.shape)})
        )
    features = net(torch.randn(2, 3, 32, 32))
    assert shapes == {"stage1": (2, 16, 32, 32), "stage2": (2, 32, 16, 16), "stage3": (2, 64, 8, 8)}
    assert features.shape == (2, 64)


def test_features_are_averages_of_the_last_maps_and_not_negative() -> None:
    net = CifarResNet().eval()
    images = torch.randn(4, 3, 32, 32)
    features = net(images)
    torch.testing.assert_close(features, F.adaptive_avg_pool2d(net.trunk(images), 1).flatten(1))
    assert features.min() >= 0
    assert features.max() > 0


def test_grey_images() -> None:
    net = CifarResNet(blocks_per_stage=1, in_channels=1)
    assert net(torch.randn(2, 1, 28, 28)).shape == (2, 64)


def test_convolutions_are_initialised_for_relu_by_fan_in() -> None:
    for module in CifarResNet().modules():
        if isinstance(module, nn.Conv2d):
            fan_in = module.in_channels * 9
            assert module.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.15)
            assert module.weight.abs().max() > math.sqrt(6 / fan_in)  # normal: uniform would end here
            assert module.bias is None


def test_no_stage_is_empty() -> None:
    with pytest.raises(EnergyAlignError, match="at least one block, not 0"):
        CifarResNet(blocks_per_stage=0)
