"""A network of which only the head is trained."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn

from energyalign.experiments.nets.network import Network


class FrozenBackbone(Network):
    """A backbone whose parameters get no gradients, under a head that learns.

    Parameters
    ----------
    backbone, head : torch.nn.Module
    moving_statistics : bool, default False
        Whether the batch statistics of the backbone follow the images in training mode. Otherwise the backbone is in
        evaluation mode even while the network is in training mode, and stays as it is, bit for bit.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module, *, moving_statistics: bool = False) -> None:
        super().__init__(backbone.requires_grad_(False), head)
        self._moving_statistics = moving_statistics

    def train(self, mode: bool = True) -> Self:
        """Training mode for the head, and for the batch statistics if they move."""
        super().train(mode)
        self.backbone.train(mode and self._moving_statistics)
        return self

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """What the head sees."""
        with torch.no_grad():
            return self.backbone(images)
