"""What the ResNets for small images are built of."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class PaddedShortcut(nn.Module):  # type: ignore[misc]
    """A way around a block that halves the image and widens it, without parameters ("option A").

    Every second pixel of every second row, and channels of zeros: half of them before the given ones, half after.
    """

    def __init__(self, n_channels_in: int, n_channels_out: int) -> None:
        super().__init__()
        self.n_each_side = (n_channels_out - n_channels_in) // 2

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """From (n, channels in, height, width) to (n, channels out, half the height, half the width)."""
        return F.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, self.n_each_side, self.n_each_side))


class BasicBlock(nn.Module):  # type: ignore[misc]
    """Two 3x3 convolutions and a shortcut around them; activation after the sum.

    A block that widens also halves the image.
    """

    def __init__(self, n_channels_in: int, n_channels_out: int) -> None:
        super().__init__()
        widens = n_channels_out != n_channels_in
        self.conv1 = conv3x3(n_channels_in, n_channels_out, stride=2 if widens else 1)
        self.bn1 = nn.BatchNorm2d(n_channels_out)
        self.conv2 = conv3x3(n_channels_out, n_channels_out)
        self.bn2 = nn.BatchNorm2d(n_channels_out)
        self.shortcut = PaddedShortcut(n_channels_in, n_channels_out) if widens else nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Not negative, as the activation comes last."""
        inner = F.relu_(self.bn1(self.conv1(images)))  # in place: nobody else sees what it works on
        return F.relu_(self.bn2(self.conv2(inner)) + self.shortcut(images))


class Trunk(nn.Module):  # type: ignore[misc]
    """A first convolution and three stages of blocks with 16, 32 and 64 channels.

    Parameters
    ----------
    n_blocks : three ints
        Blocks of each stage; at least one, since the first block of a stage widens.
    in_channels : int
    """

    def __init__(self, n_blocks: tuple[int, int, int], in_channels: int) -> None:
        super().__init__()
        self.conv = conv3x3(in_channels, 16)
        self.bn = nn.BatchNorm2d(16)
        self.stage1 = _stage(n_blocks[0], 16, 16)
        self.stage2 = _stage(n_blocks[1], 16, 32)
        self.stage3 = _stage(n_blocks[2], 32, 64)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """64 maps, of a quarter of the height and width of the images."""
        maps = F.relu_(self.bn(self.conv(images)))
        return self.stage3(self.stage2(self.stage1(maps)))


def conv3x3(n_channels_in: int, n_channels_out: int, *, stride: int = 1) -> nn.Conv2d:
    """No bias: batch normalisation follows and would take it away. Initialised for ReLU, by fan-in."""
    conv = nn.Conv2d(n_channels_in, n_channels_out, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return conv


def average_over_pixels(maps: torch.Tensor) -> torch.Tensor:
    """Global average pooling, from (n, channels, height, width) to (n, channels).

    A plain mean: the backward pass of adaptive pooling is not deterministic on GPUs.
    """
    return maps.mean(dim=(2, 3))


def _stage(n_blocks: int, n_channels_in: int, n_channels_out: int) -> nn.Sequential:
    rest = [BasicBlock(n_channels_out, n_channels_out) for _ in range(n_blocks - 1)]
    return nn.Sequential(BasicBlock(n_channels_in, n_channels_out), *rest)
