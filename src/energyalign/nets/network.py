"""A network is a backbone and a head, each chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from energyalign.core.errors import EnergyAlignError
from energyalign.nets.bbn import Split, TwoBranches
from energyalign.nets.heads import check_head, make_head
from energyalign.nets.large import split_resnet, torchvision_resnet
from energyalign.nets.normalised import DEFAULT_SCALE
from energyalign.nets.random_paths import LARGE, SMALL, RandomPaths
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
    """A row of the registry.

    Attributes
    ----------
    factory : callable
        Takes ``in_channels``.
    split : callable or None
        Takes such a backbone apart into all but its last block, and that block; None if that cannot be doubled, or is.
    """

    factory: Callable[..., nn.Module]
    description: str
    reference: str
    split: Split | None = None


BACKBONES: dict[str, BackboneEntry] = {
    "resnet32": BackboneEntry(
        CifarResNet, "for 32x32 pixels, 64 features", "He et al. 2016; Cao et al. 2019", CifarResNet.split
    ),
    "resnet8": BackboneEntry(
        partial(CifarResNet, blocks_per_stage=1), "ResNet-32 with one block a stage, for quick runs", "He et al. 2016",
        CifarResNet.split,
    ),
    "resnet18": BackboneEntry(
        partial(torchvision_resnet, "resnet18"), "for photographs, 512 features", "He et al. 2016", split_resnet
    ),
    "resnet50": BackboneEntry(
        partial(torchvision_resnet, "resnet50"), "for photographs, 2,048 features", "He et al. 2016", split_resnet
    ),
    "resnext50": BackboneEntry(
        partial(torchvision_resnet, "resnext50_32x4d"), "32x4d, for photographs, 2,048 features", "Xie et al. 2017",
        split_resnet,
    ),
    "small-cnn": BackboneEntry(
        SmallCnn, "three convolutions for 8x8 to 32x32 pixels, 64 features", "energyalign", SmallCnn.split
    ),
    "rps-small": BackboneEntry(
        partial(RandomPaths, SMALL), "paths through 9 levels of 8 modules for 8x8 to 32x32 pixels, 64 features",
        "Rajasegaran et al. 2019",
    ),
    "rps-large": BackboneEntry(
        partial(RandomPaths, LARGE, photographs=True), "paths through 9 levels of 8 modules for photographs, "
        "512 features", "Rajasegaran et al. 2019",
    ),
}  # fmt: skip
_NOT_DOUBLED = [name for name, entry in BACKBONES.items() if entry.split is None]
BACKBONES |= {
    f"{name}-bbn": BackboneEntry(
        partial(TwoBranches, entry.factory, entry.split), f"{name} with two last blocks", "Zhou et al. 2020"
    )
    for name, entry in BACKBONES.items()
    if entry.split is not None
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
        Of a head that normalises: any but the linear one.
    in_channels : int
        3 for colour images, 1 for grey ones.
    """
    check_network(backbone, head)
    body = BACKBONES[backbone].factory(in_channels=in_channels)
    network = Network(body, make_head(head, body.n_features, n_classes, scale=scale, learned_scale=learned_scale))
    # Convolutions follow the layout of their weights, and with channels last a training step of ResNet-32 takes a sixth
    # less time on CPUs. Here and nowhere else: the layout decides the last bits of the results.
    network.to(memory_format=torch.channels_last)
    return network


def check_network(backbone: str, head: str) -> None:
    """Refuse names that there are not; cheaper than to make the network."""
    check_head(head)
    if backbone not in BACKBONES:
        known = ", ".join(name for name, entry in BACKBONES.items() if entry.split is not None)
        raise EnergyAlignError(
            f"unknown backbone {backbone!r}: choose {known}, or one of these with -bbn after it, for two last blocks, "
            f"or {', '.join(_NOT_DOUBLED)}."
        )
