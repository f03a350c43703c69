"""Networks made of a backbone and a head, each chosen by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import nn

from energyalign.experiments.nets.heads import make_head
from energyalign.experiments.nets.libraries import load_weights, make_library_backbone
from energyalign.experiments.nets.registry import BACKBONES, DEFAULT_SCALE, check_network, is_of_library

if TYPE_CHECKING:
    from energyalign.experiments.losses.mixup import Mixture


class Network(nn.Module):  # type: ignore[misc]
    """A backbone, from images to features of shape (n, ``backbone.n_features``), and a head, from features to logits.

    To add classes, replace the head: ``network.head = grow(network.head, n_classes)``.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Return the input of the head."""
        return self.backbone(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images))


class FrozenBackbone(nn.Module):  # type: ignore[misc]
    """A backbone whose parameters get no gradients, for training a head.

    With `moving_statistics` its batch statistics are updated in training mode. Otherwise it is always in evaluation
    mode and does not change at all.
    """

    def __init__(self, backbone: nn.Module, *, moving_statistics: bool = False) -> None:
        super().__init__()
        self.backbone, self.n_features = backbone.requires_grad_(False), backbone.n_features
        self._moving_statistics = moving_statistics

    def train(self, mode: bool = True) -> Self:
        super().train(mode and self._moving_statistics)
        return self

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.backbone(images)


class MixingNetwork(Network):
    """A network that can mix the features of a batch before the head."""

    def forward(self, images: torch.Tensor, mixture: Mixture | None = None) -> torch.Tensor:
        features = self.features(images)
        return self.head(features if mixture is None else mixture.mix(features))


class Mirrored(nn.Module):  # type: ignore[misc]
    """A network applied to images flipped left to right."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images.flip(-1))


def make_network(
    backbone: str, n_classes: int, *, head: str = "cosine", scale: float = DEFAULT_SCALE, learned_scale: bool = False,
    in_channels: int = 3, weights: str | None = None, freeze: bool = False, size: tuple[int, int] = (224, 224),
    mean: Sequence[float] = (0.485, 0.456, 0.406), std: Sequence[float] = (0.229, 0.224, 0.225),
) -> Network:  # fmt: skip
    """Make a network from the names of its backbone and head, with weights from torch's global generator.

    `scale` applies to all heads but the linear one. `weights` is a file for the backbone, or ``default`` for the
    weights of its library; with `freeze` they are not trained. `size`, `mean` and `std` describe the images and apply
    to networks of a library.
    """
    check_network(backbone, head, weights)
    if is_of_library(backbone):
        body = make_library_backbone(backbone, in_channels=in_channels, size=size, mean=mean, std=std, weights=weights)
    else:
        body = BACKBONES[backbone].make(in_channels)
        if weights is not None:
            load_weights(body, weights)
    body = FrozenBackbone(body) if freeze else body
    network = Network(body, make_head(head, body.n_features, n_classes, scale=scale, learned_scale=learned_scale))
    # With channels last a training step of ResNet-32 takes a sixth less time on CPUs. The layout decides the last bits
    # of the results, so set it only here.
    network.to(memory_format=torch.channels_last)
    return network
