"""The bilateral-branch network: any backbone with two last blocks side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import nn

from energyalign.experiments.nets.backbones import average_over_pixels
from energyalign.experiments.nets.network import Network

Split: TypeAlias = Callable[[nn.Module], tuple[nn.Module, nn.Module]]
"""Function that splits a backbone into everything before its last block, and that block. The features are the output of
the block, averaged over pixels.
"""


class TwoBranches(nn.Module):  # type: ignore[misc]
    """A backbone whose last block exists twice, with the features of both.

    BBN trains the conventional branch on the data as they are and the re-balancing branch on reversed sampling,
    through one trunk. On ResNet-32 it has 537,488 parameters; De-confound's "ResNet-32" is the same network.

    ``make(in_channels=...)`` makes the backbone. It is called twice, so that the two blocks are initialised
    independently.

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
        """Return the features of both branches, the conventional one first."""
        maps = self.trunk(images)
        return torch.cat([average_over_pixels(block(maps)) for block in (self.cb_block, self.rb_block)], dim=1)

    def conventional_features(self, images: torch.Tensor) -> torch.Tensor:
        return average_over_pixels(self.cb_block(self.trunk(images)))

    def rebalancing_features(self, images: torch.Tensor) -> torch.Tensor:
        return average_over_pixels(self.rb_block(self.trunk(images)))


class BbnNetwork(Network):
    """A network with two branches, each of which can see its own batch."""

    def forward(
        self, images: torch.Tensor, other: torch.Tensor | None = None, share: float | None = None
    ) -> torch.Tensor:
        """Return logits of images that both branches see, or of ``[2 a f_c(images) ; 2 (1 - a) f_r(other)]``.

        In the second case the re-balancing branch sees the `other` images, and `share` is a.
        """
        if other is None or share is None:
            return super().forward(images)
        # Separately, as in the original: each batch is normalised by its own statistics.
        conventional = self.backbone.conventional_features(images)
        rebalancing = self.backbone.rebalancing_features(other)
        return self.head(torch.cat([2.0 * share * conventional, 2.0 * (1.0 - share) * rebalancing], dim=1))
