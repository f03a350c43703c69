"""Backbones, from images to features: ResNets and a small CNN for small images, torchvision's for photographs.

Two are for samples that are features already.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError


class CifarResNet(nn.Module):  # type: ignore[misc]
    """The ResNet for CIFAR that LDAM and BBN share, without its head: 463,504 parameters, 64 features.

    Shortcuts have no parameters ("option A") and features are not negative, since they are averages of activations.
    The depth is 6 times `blocks_per_stage` plus 2: 5 for ResNet-32, 1 for a quick ResNet-8.

    References
    ----------
    He et al. 2016, Deep Residual Learning, section 4.2; Cao et al. 2019 (LDAM); Zhou et al. 2020 (BBN).
    """

    n_features = 64

    def __init__(self, blocks_per_stage: int = 5, in_channels: int = 3) -> None:
        super().__init__()
        if blocks_per_stage < 1:
            raise EnergyAlignError(f"a stage needs at least one block, not {blocks_per_stage}.")
        self.trunk = Trunk((blocks_per_stage,) * 3, in_channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of shape (n, 64)."""
        return average_over_pixels(self.trunk(images))

    def split(self) -> tuple[nn.Module, nn.Module]:
        """All before the last block, and that block, which is then missing here: for `TwoBranches`."""
        return self.trunk, self.trunk.stage3.pop(-1)


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
    """A first convolution and three stages of blocks, at least one each, with 16, 32 and 64 channels."""

    def __init__(self, n_blocks: tuple[int, int, int], in_channels: int) -> None:
        super().__init__()
        self.conv = conv3x3(in_channels, 16)
        self.bn = nn.BatchNorm2d(16)
        self.stage1 = stage(n_blocks[0], 16, 16)
        self.stage2 = stage(n_blocks[1], 16, 32)
        self.stage3 = stage(n_blocks[2], 32, 64)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """64 maps, of a quarter of the height and width of the images."""
        maps = F.relu_(self.bn(self.conv(images)))
        return self.stage3(self.stage2(self.stage1(maps)))


class SmallCnn(nn.Module):  # type: ignore[misc]
    """Three convolutions with batch normalisation, for images of 8x8 to 32x32 pixels; trains in seconds on a CPU."""

    n_features = 64

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *conv_layer(in_channels, 32), *conv_layer(32, 64, stride=2), *conv_layer(64, 64, stride=2)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of shape (n, 64), not negative."""
        return average_over_pixels(self.layers(images))

    def split(self) -> tuple[nn.Module, nn.Module]:
        """The first two convolutions and the third, each with what follows it: for `TwoBranches`."""
        return self.layers[:-3], self.layers[-3:]


def conv_layer(n_channels_in: int, n_channels_out: int, *, stride: int = 1) -> list[nn.Module]:
    """A convolution, batch normalisation and activation."""
    return [conv3x3(n_channels_in, n_channels_out, stride=stride), nn.BatchNorm2d(n_channels_out), nn.ReLU()]


class Identity(nn.Module):  # type: ignore[misc]
    """Features as they come, for a head alone; `in_channels` is their number."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.n_features = in_channels

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """The features."""
        return features


class Mlp(nn.Module):  # type: ignore[misc]
    """One hidden layer on features, of which there are `in_channels`."""

    n_features = 512

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.layer = nn.Linear(in_channels, self.n_features)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features of shape (n, 512), not negative."""
        return F.relu(self.layer(features))


def torchvision_resnet(name: str, in_channels: int = 3) -> nn.Module:
    """A ResNet or ResNeXt of torchvision as a backbone, never pre-trained.

    With other than 3 channels the first convolution is a new one, initialised as torchvision does.
    """
    try:
        from torchvision import models
    except ImportError as error:
        raise EnergyAlignError(
            f"{name} needs torchvision, which is not installed: pip install 'energyalign[experiments]'."
        ) from error
    net = models.get_model(name, weights=None)
    if in_channels != net.conv1.in_channels:
        net.conv1 = nn.Conv2d(in_channels, net.conv1.out_channels, 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
    net.n_features = net.fc.in_features
    net.fc = nn.Identity()
    return net


def split_resnet(net: nn.Module) -> tuple[nn.Module, nn.Module]:
    """All before the last block of such a network, and that block, which is then missing in it: for `TwoBranches`."""
    last = net.layer4.pop(-1)
    before = OrderedDict((name, part) for name, part in net.named_children() if name not in ("avgpool", "fc"))
    return nn.Sequential(before), last


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


def stage(n_blocks: int, n_channels_in: int, n_channels_out: int) -> nn.Sequential:
    """So many blocks, of which the first widens."""
    rest = [BasicBlock(n_channels_out, n_channels_out) for _ in range(n_blocks - 1)]
    return nn.Sequential(BasicBlock(n_channels_in, n_channels_out), *rest)
