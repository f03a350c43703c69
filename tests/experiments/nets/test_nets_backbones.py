"""The backbones for small images and for photographs."""

from __future__ import annotations

import math
import sys
import urllib.request

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torchvision import models

from energyalign import EnergyAlignError
from energyalign.experiments.nets.backbones import BasicBlock, CifarResNet, PaddedShortcut, SmallCnn, torchvision_resnet
from energyalign.experiments.nets.heads import LinearHead
from energyalign.experiments.nets.network import Network, make_network
from energyalign.experiments.nets.registry import HEADS


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
    with pytest.raises(EnergyAlignError, match="blocks_per_stage must be >= 1, got 0"):
        CifarResNet(blocks_per_stage=0)


def test_it_is_small() -> None:
    assert sum(parameter.numel() for parameter in SmallCnn().parameters()) < 100_000


@pytest.mark.parametrize("size", [8, 16, 28, 32])
@pytest.mark.parametrize("in_channels", [1, 3])
def test_sizes_and_colours(size: int, in_channels: int) -> None:
    features = SmallCnn(in_channels)(torch.randn(2, in_channels, size, size))
    assert features.shape == (2, 64)
    assert features.min() >= 0


@pytest.mark.parametrize("head", HEADS)
def test_it_learns_digits(head: str) -> None:
    digits = load_digits()
    split = train_test_split(digits.images / 16.0, digits.target, test_size=0.3, random_state=0, stratify=digits.target)
    images, test_images = (torch.tensor(part, dtype=torch.float32)[:, None] for part in split[:2])
    labels, test_labels = (torch.tensor(part) for part in split[2:])
    network = make_network("small-cnn", 10, head=head, in_channels=1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _epoch in range(4):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    network.eval()
    with torch.no_grad():
        correct = network(test_images).argmax(1) == test_labels
    assert correct.float().mean() > 0.9


N_FEATURES = {"resnet18": 512, "resnet50": 2048, "resnext50_32x4d": 2048}


@pytest.mark.parametrize("name", N_FEATURES)
def test_it_is_the_network_of_torchvision_without_its_head(name: str) -> None:
    torch.manual_seed(0)
    backbone = torchvision_resnet(name).eval()
    torch.manual_seed(0)
    whole = models.get_model(name).eval()
    n_of_head = N_FEATURES[name] * 1000 + 1000
    n_backbone, n_whole = (sum(p.numel() for p in net.parameters()) for net in (backbone, whole))
    assert n_backbone == n_whole - n_of_head
    assert backbone.n_features == N_FEATURES[name]
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        features = backbone(images)
        torch.testing.assert_close(whole.fc(features), whole(images))
    assert features.shape == (1, N_FEATURES[name])
    assert features.min() >= 0


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked for the network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", refuse)
    torchvision_resnet("resnet18")


def test_grey_photographs() -> None:
    backbone = torchvision_resnet("resnet18", in_channels=1).eval()
    with torch.no_grad():
        assert backbone(torch.randn(1, 1, 64, 64)).shape == (1, 512)
    fan_out = 64 * 49
    assert backbone.conv1.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


def test_without_torchvision_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(EnergyAlignError, match=r"resnet50 needs torchvision.*pip install 'energyalign\[experiments\]'"):
        torchvision_resnet("resnet50")
