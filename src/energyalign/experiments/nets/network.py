"""A network is a backbone and a head, each chosen by name."""

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
    """Images to features of shape (n, ``backbone.n_features``) to logits.

    Replace the head to grow: ``network.head = grown(network.head, n_classes)``.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """What the head sees."""
        return self.backbone(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits, one column per class."""
        return self.head(self.features(images))


class FrozenBackbone(nn.Module):  # type: ignore[misc]
    """A backbone whose parameters get no gradients, for a head that learns.

    With `moving_statistics` the batch statistics of the backbone follow the images in training mode. Otherwise it is in
    evaluation mode even while the network is in training mode, and stays as it is, bit for bit.
    """

    def __init__(self, backbone: nn.Module, *, moving_statistics: bool = False) -> None:
        super().__init__()
        self.backbone, self.n_features = backbone.requires_grad_(False), backbone.n_features
        self._moving_statistics = moving_statistics

    def train(self, mode: bool = True) -> Self:
        """Training mode for the batch statistics alone, if they move."""
        super().train(mode and self._moving_statistics)
        return self

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features, without gradients."""
        with torch.no_grad():
            return self.backbone(images)


class MixingNetwork(Network):
    """A network that can mix the features of a batch before the head sees them."""

    def forward(self, images: torch.Tensor, mixture: Mixture | None = None) -> torch.Tensor:
        """Logits; of mixed features if a mixture is given."""
        features = self.features(images)
        return self.head(features if mixture is None else mixture.mix(features))


class Mirrored(nn.Module):  # type: ignore[misc]
    """What a network says of images turned left to right, wherever the images come from."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The last axis of images is their width."""
        return self.network(images.flip(-1))


def make_network(
    backbone: str, n_classes: int, *, head: str = "cosine", scale: float = DEFAULT_SCALE, learned_scale: bool = False,
    in_channels: int = 3, weights: str | None = None, freeze: bool = False, size: tuple[int, int] = (224, 224),
    mean: Sequence[float] = (0.485, 0.456, 0.406), std: Sequence[float] = (0.229, 0.224, 0.225),
) -> Network:  # fmt: skip
    """A network by the names of its backbone and head, with weights from torch's global generator.

    The scale is that of a head that normalises: any but the linear one. Grey images have 1 channel, colour images 3.
    `weights` is a file for the backbone, or ``default`` for those of its library; with `freeze` they stay as they are.
    A network of a library also depends on the `size`, `mean` and `std` of the images that it will see.
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
    # Convolutions follow the layout of their weights, and with channels last a training step of ResNet-32 takes a sixth
    # less time on CPUs. Here and nowhere else: the layout decides the last bits of the results.
    network.to(memory_format=torch.channels_last)
    return network
