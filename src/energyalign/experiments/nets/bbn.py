"""Any backbone with two last blocks side by side: the bilateral-branch network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import nn

from energyalign.experiments.nets.backbones import average_over_pixels
from energyalign.experiments.nets.network import Network

Split: TypeAlias = Callable[[nn.Module], tuple[nn.Module, nn.Module]]
"""Takes a backbone apart: from images to the input of its last block, and that block; the average over pixels of what
the block gives are the features."""


class TwoBranches(nn.Module):  # type: ignore[misc]
    """A backbone whose last block exists twice, so that it has twice as many features.

    BBN trains the conventional branch on the data as they are and the re-balancing branch on reversed sampling,
    through one trunk. On ResNet-32 it has 537,488 parameters; De-confound's "ResNet-32" is that network too.

    `make` makes the backbone, given ``in_channels``. It is called twice, so that the blocks are initialised as the
    backbone's are, each on its own.

    References
    ----------
    Zhou, Cui, Wei and Chen 2020, BBN: Bilateral-Branch Network with Cumulative Learning for Long-Tailed Visual
    Recognition.
    """

    def __init__(self, make: Callable[..., nn.Module], split: Split, in_channels: int = 3) -> None:
        super().__init__()
        first, second = make(in_channels=in_channels), make(in_channels=in_channels)
        self.n_features = 2 * first.n_features
        self.trunk, self.cb_block = split(first)
        _, self.rb_block = split(second)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of both branches of the same images: (n, n_features), the conventional branch first."""
        maps = self.trunk(images)
        return torch.cat([average_over_pixels(block(maps)) for block in (self.cb_block, self.rb_block)], dim=1)

    def conventional_features(self, images: torch.Tensor) -> torch.Tensor:
        """Features of the conventional branch, (n, n_features / 2)."""
        return average_over_pixels(self.cb_block(self.trunk(images)))

    def rebalancing_features(self, images: torch.Tensor) -> torch.Tensor:
        """Features of the re-balancing branch, (n, n_features / 2)."""
        return average_over_pixels(self.rb_block(self.trunk(images)))


class BbnNetwork(Network):
    """A network whose backbone has two branches, which can see a batch each."""

    def forward(
        self, images: torch.Tensor, other: torch.Tensor | None = None, share: float | None = None
    ) -> torch.Tensor:
        """Logits: of images that both branches see, or of pairs ``[2 a f_c(image) ; 2 (1 - a) f_r(other)]``.

        The conventional branch sees `images`, the re-balancing one as many `other` images. The `share` is a, the weight
        of the conventional branch; without, both have the factor 1 of a = 1/2.
        """
        if other is None or share is None:
            return super().forward(images)
        # One after the other, as in the original: each batch is normalised by its own statistics.
        conventional = self.backbone.conventional_features(images)
        rebalancing = self.backbone.rebalancing_features(other)
        return self.head(torch.cat([2.0 * share * conventional, 2.0 * (1.0 - share) * rebalancing], dim=1))
