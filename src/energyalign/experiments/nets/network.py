"""A network is a backbone and a head, each chosen by name."""

from __future__ import annotations

import torch
from torch import nn

from energyalign.experiments.nets.heads import make_head
from energyalign.experiments.nets.registry import BACKBONES, DEFAULT_SCALE, check_network


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
    body = BACKBONES[backbone].make(in_channels)
    network = Network(body, make_head(head, body.n_features, n_classes, scale=scale, learned_scale=learned_scale))
    # Convolutions follow the layout of their weights, and with channels last a training step of ResNet-32 takes a sixth
    # less time on CPUs. Here and nowhere else: the layout decides the last bits of the results.
    network.to(memory_format=torch.channels_last)
    return network
