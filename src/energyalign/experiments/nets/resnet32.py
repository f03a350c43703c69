"""ResNet-32 for images of 32x32 pixels, and its shorter relatives."""

from __future__ import annotations

import torch
from torch import nn

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.blocks import Trunk, average_over_pixels


class CifarResNet(nn.Module):  # type: ignore[misc]
    """The ResNet for CIFAR that LDAM and BBN share, without its head: 463,504 parameters, 64 features.

    Shortcuts have no parameters ("option A") and features are not negative, since they are averages of activations.

    Parameters
    ----------
    blocks_per_stage : int
        The depth is 6 times this plus 2: 5 for ResNet-32, 1 for a quick ResNet-8.
    in_channels : int
        3 for colour images, 1 for grey ones.

    References
    ----------
    He et al. 2016, Deep Residual Learning, section 4.2; Cao et al. 2019 (LDAM); Zhou et al. 2020 (BBN).
    """

    n_features = 64

    def __init__(self, blocks_per_stage: int = 5, in_channels: int = 3) -> None:
        super().__init__()
        if blocks_per_stage < 1:
            raise EnergyAlignError(f"a stage needs at least one block, not {blocks_per_stage}.")
        self.trunk = Trunk((blocks_per_stage, blocks_per_stage, blocks_per_stage), in_channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of shape (n, 64)."""
        return average_over_pixels(self.trunk(images))

    def split(self) -> tuple[nn.Module, nn.Module]:
        """All before the last block, and that block, which is then missing here: for `TwoBranches`."""
        return self.trunk, self.trunk.stage3.pop(-1)
