"""A network for small images that trains in seconds without a GPU."""

from __future__ import annotations

import torch
from torch import nn

from energyalign.experiments.nets.blocks import average_over_pixels, conv3x3


class SmallCnn(nn.Module):  # type: ignore[misc]
    """Three convolutions with batch normalisation, for grey or colour images of 8x8 to 32x32 pixels; 64 features.

    Parameters
    ----------
    in_channels : int
        3 for colour images, 1 for grey ones.
    """

    n_features = 64

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_layer(in_channels, 32), *_layer(32, 64, stride=2), *_layer(64, 64, stride=2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of shape (n, 64), not negative."""
        return average_over_pixels(self.layers(images))

    def split(self) -> tuple[nn.Module, nn.Module]:
        """The first two convolutions and the third, each with what follows it: for `TwoBranches`."""
        return self.layers[:-3], self.layers[-3:]


def _layer(n_channels_in: int, n_channels_out: int, *, stride: int = 1) -> list[nn.Module]:
    return [conv3x3(n_channels_in, n_channels_out, stride=stride), nn.BatchNorm2d(n_channels_out), nn.ReLU()]
