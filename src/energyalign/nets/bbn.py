"""ResNet-32 with two last blocks side by side, the bilateral-branch network."""

from __future__ import annotations

import torch
from torch import nn

from energyalign.nets.blocks import BasicBlock, Trunk, average_over_pixels


class BbnResNet32(nn.Module):  # type: ignore[misc]
    """ResNet-32 whose last block exists twice; 537,488 parameters, 64 features of each branch.

    BBN trains the conventional branch on the data as they are and the re-balancing branch on reversed sampling,
    through one trunk. De-confound's "ResNet-32" is this network too.

    Parameters
    ----------
    in_channels : int

    References
    ----------
    Zhou et al. 2020, BBN: Bilateral-Branch Network with Cumulative Learning.
    """

    n_features = 128

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        self.trunk = Trunk((5, 5, 4), in_channels)
        self.cb_block = BasicBlock(64, 64)
        self.rb_block = BasicBlock(64, 64)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of both branches of the same images: (n, 128), the conventional branch first."""
        maps = self.trunk(images)
        return torch.cat([average_over_pixels(block(maps)) for block in (self.cb_block, self.rb_block)], dim=1)

    def conventional_features(self, images: torch.Tensor) -> torch.Tensor:
        """Features of the conventional branch, (n, 64)."""
        return average_over_pixels(self.cb_block(self.trunk(images)))

    def rebalancing_features(self, images: torch.Tensor) -> torch.Tensor:
        """Features of the re-balancing branch, (n, 64)."""
        return average_over_pixels(self.rb_block(self.trunk(images)))
