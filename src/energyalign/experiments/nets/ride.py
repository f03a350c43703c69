"""RIDE's network, without its router: experts that share the first blocks of a backbone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import nn

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.backbones import (
    average_over_pixels,
    conv3x3,
    conv_layer,
    stage,
    torchvision_resnet,
)
from energyalign.experiments.nets.heads import NormalisedHead, directions
from energyalign.experiments.nets.network import Network

N_EXPERTS = 3


class Experts(nn.Module):  # type: ignore[misc]
    """Shared first blocks, and last blocks for each expert; the features of all experts are concatenated."""

    def __init__(self, trunk: nn.Module, branches: Sequence[nn.Module], features_each: int) -> None:
        super().__init__()
        self.trunk, self.branches = trunk, nn.ModuleList(branches)
        self.n_features = len(branches) * features_each

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.trunk(images)
        return torch.cat([average_over_pixels(branch(maps)) for branch in self.branches], dim=1)


class ExpertsHead(NormalisedHead):
    """A cosine head for each expert; logits are their mean."""

    n_parts: ClassVar[int] = N_EXPERTS

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        return directions(features.unflatten(-1, (self.n_parts, -1))).flatten(-2)

    def normalised_weight(self) -> torch.Tensor:
        return directions(self.weight.unflatten(-1, (self.n_parts, -1))).flatten(-2)

    def of_each(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits of each expert, of shape (n, n_experts, n_classes)."""
        parts = self.normalised(features).unflatten(-1, (self.n_parts, -1))
        weights = self.normalised_weight().unflatten(-1, (self.n_parts, -1))
        return self.scale * torch.einsum("ned,ced->nec", parts, weights)


class ExpertsNetwork(Network):
    """A network that can also return the logits of each expert."""

    def forward(self, images: torch.Tensor, each: bool = False) -> torch.Tensor:
        features = self.features(images)
        return self.head.of_each(features) if each else self.head(features)


def make_experts(backbone: str, n_classes: int, *, scale: float, in_channels: int) -> ExpertsNetwork:
    """Make the untrained network on a backbone, with weights from torch's global generator."""
    if backbone not in _MAKERS:
        raise EnergyAlignError(
            "ride shares the first blocks of a backbone among its experts, and does not know the blocks of "
            f"{backbone}: choose one of {', '.join(_MAKERS)}, or leave out ride."
        )
    body = _MAKERS[backbone](in_channels)
    network = ExpertsNetwork(body, ExpertsHead(body.n_features, n_classes, scale))
    network.to(memory_format=torch.channels_last)  # as `make_network` does
    return network


def _cifar(blocks_per_stage: int, in_channels: int) -> Experts:
    """Give each expert the last two of three stages, with 24 and 48 instead of 32 and 64 channels."""
    first = [conv3x3(in_channels, 16), nn.BatchNorm2d(16), nn.ReLU(), stage(blocks_per_stage, 16, 16)]
    last = [nn.Sequential(stage(blocks_per_stage, 16, 24), stage(blocks_per_stage, 24, 48)) for _ in range(N_EXPERTS)]
    return Experts(nn.Sequential(*first), last, 48)


def _small_cnn(in_channels: int) -> Experts:
    """Give each expert the last two of three convolutions, with 48 instead of 64 channels."""
    last = [nn.Sequential(*conv_layer(32, 48, stride=2), *conv_layer(48, 48, stride=2)) for _ in range(N_EXPERTS)]
    return Experts(nn.Sequential(*conv_layer(in_channels, 32)), last, 48)


def _torchvision(name: str, in_channels: int) -> Experts:
    """Give each expert the last two of four stages, with all their channels."""
    nets = [torchvision_resnet(name, in_channels) for _ in range(N_EXPERTS)]
    first = nets[0]
    trunk = nn.Sequential(first.conv1, first.bn1, first.relu, first.maxpool, first.layer1, first.layer2)
    return Experts(trunk, [nn.Sequential(net.layer3, net.layer4) for net in nets], first.n_features)


_MAKERS: dict[str, Callable[[int], Experts]] = {
    "resnet32": lambda in_channels: _cifar(5, in_channels),
    "resnet8": lambda in_channels: _cifar(1, in_channels),
    "resnet18": lambda in_channels: _torchvision("resnet18", in_channels),
    "resnet50": lambda in_channels: _torchvision("resnet50", in_channels),
    "resnext50": lambda in_channels: _torchvision("resnext50_32x4d", in_channels),
    "small-cnn": _small_cnn,
}
