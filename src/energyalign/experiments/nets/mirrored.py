"""A network on mirrored images."""

from __future__ import annotations

import torch
from torch import nn


class Mirrored(nn.Module):  # type: ignore[misc]
    """What a network says of images turned left to right, wherever the images come from."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The last axis of images is their width."""
        return self.network(images.flip(-1))
