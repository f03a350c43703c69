"""A network of which only the head is trained."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn

from energyalign.nets.network import Network


class FrozenBackbone(Network):
    """A backbone that stays as it is, bit for bit, under a head that learns.

    Its parameters get no gradients and its batch statistics do not move: it is in evaluation mode even while the
    network is in training mode.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__(backbone.requires_grad_(False), head)

    def train(self, mode: bool = True) -> Self:
        """Training mode for the head alone."""
        super().train(mode)
        self.backbone.eval()
        return self

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """What the head sees."""
        with torch.no_grad():
            return self.backbone(images)
