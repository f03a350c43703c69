"""A network is a backbone and a head, each chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from energyalign.core.errors import EnergyAlignError
from energyalign.nets.bbn import BbnResNet32
from energyalign.nets.heads import DEFAULT_SCALE, make_head
from energyalign.nets.large import torchvision_resnet
from energyalign.nets.resnet32 import CifarResNet
from energyalign.nets.small_cnn import SmallCnn


class Network(nn.Module):  # type: ignore[misc]
    """Images to features to logits.

    Parameters
    ----------
    backbone : torch.nn.Module
        Gives features of shape (n, ``backbone.n_features``).
    head : torch.nn.Module
        Gives logits. Replace it to grow: ``network.head = grown(network.head, n_classes)``.
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


class BackboneEntry(NamedTuple):
    """A row of the registry. The factory takes ``in_channels``."""

    factory: Callable[..., nn.Module]
    description: str
    reference: str


BACKBONES: dict[str, BackboneEntry] = {
    "resnet32": BackboneEntry(CifarResNet, "for 32x32 pixels, 64 features", "He et al. 2016; Cao et al. 2019"),
    "resnet32-bbn": BackboneEntry(BbnResNet32, "ResNet-32 with two last blocks, 128 features", "Zhou et al. 2020"),
    "resnet8": BackboneEntry(
        partial(CifarResNet, blocks_per_stage=1), "ResNet-32 with one block a stage, for quick runs", "He et al. 2016"
    ),
    "resnet18": BackboneEntry(
        partial(torchvision_resnet, "resnet18"), "for photographs, 512 features", "He et al. 2016"
    ),
    "resnet50": BackboneEntry(
        partial(torchvision_resnet, "resnet50"), "for photographs, 2,048 features", "He et al. 2016"
    ),
    "resnext50": BackboneEntry(
        partial(torchvision_resnet, "resnext50_32x4d"), "32x4d, for photographs, 2,048 features", "Xie et al. 2017"
    ),
    "small-cnn": BackboneEntry(SmallCnn, "three convolutions for 8x8 to 32x32 pixels, 64 features", "energyalign"),
}


def make_network(
    backbone: str,
    n_classes: int,
    *,
    head: str = "cosine",
    scale: float = DEFAULT_SCALE,
    learned_scale: bool = False,
    in_channels: int = 3,
) -> Network:
    """An untrained network, its weights drawn from torch's global generator.

    Parameters
    ----------
    backbone : str
        A name of `BACKBONES`.
    n_classes : int
    head : str
        A name of `HEADS`.
    scale, learned_scale
        Of the cosine head.
    in_channels : int
        3 for colour images, 1 for grey ones.
    """
    if backbone not in BACKBONES:
        raise EnergyAlignError(f"unknown backbone {backbone!r}: choose {', '.join(BACKBONES)}.")
    body = BACKBONES[backbone].factory(in_channels=in_channels)
    return Network(body, make_head(head, body.n_features, n_classes, scale=scale, learned_scale=learned_scale))
