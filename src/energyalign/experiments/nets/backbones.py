"""Backbones: ResNets and a small CNN for small images, torchvision's for photographs, and two for features."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError


class CifarResNet(nn.Module):  # type: ignore[misc]
    """The ResNet for CIFAR that LDAM and BBN share, without its head: 463,504 parameters, 64 features.

    Shortcuts have no parameters ("option A"). Features are averages of ReLU outputs, so they are not negative. The
    depth is ``6 * blocks_per_stage + 2``: 5 blocks for ResNet-32, 1 for a quick ResNet-8.

    References
    ----------
    He et al. 2016, Deep Residual Learning, section 4.2; Cao et al. 2019 (LDAM); Zhou et al. 2020 (BBN).
    """

    n_features = 64

    def __init__(self, blocks_per_stage: int = 5, in_channels: int = 3) -> None:
        super().__init__()
        if blocks_per_stage < 1:
            raise EnergyAlignError(f"blocks_per_stage must be >= 1, got {blocks_per_stage}.")
        self.trunk = Trunk((blocks_per_stage,) * 3, in_channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return average_over_pixels(self.trunk(images))

    def split(self) -> tuple[nn.Module, nn.Module]:
        """Remove the last block; return everything before it, and the block. For `TwoBranches`."""
        return self.trunk, self.trunk.stage3.pop(-1)


class PaddedShortcut(nn.Module):  # type: ignore[misc]
    """A shortcut without parameters around a block that halves the image and adds channels ("option A").

    It takes every second pixel of every second row, and pads with channels of zeros: half of them before the given
    channels, half after.
    """

    def __init__(self, n_channels_in: int, n_channels_out: int) -> None:
        super().__init__()
        self.n_each_side = (n_channels_out - n_channels_in) // 2

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, self.n_each_side, self.n_each_side))


class BasicBlock(nn.Module):  # type: ignore[misc]
    """Two 3x3 convolutions and a shortcut, with the ReLU after the sum. A block that adds channels halves the image."""

    def __init__(self, n_channels_in: int, n_channels_out: int) -> None:
        super().__init__()
        widens = n_channels_out != n_channels_in
        self.conv1 = conv3x3(n_channels_in, n_channels_out, stride=2 if widens else 1)
        self.bn1 = nn.BatchNorm2d(n_channels_out)
        self.conv2 = conv3x3(n_channels_out, n_channels_out)
        self.bn2 = nn.BatchNorm2d(n_channels_out)
        self.shortcut = PaddedShortcut(n_channels_in, n_channels_out) if widens else nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = F.relu_(self.bn1(self.conv1(images)))  # in place, since nothing else reads its input
        return F.relu_(self.bn2(self.conv2(inner)) + self.shortcut(images))


class Trunk(nn.Module):  # type: ignore[misc]
    """A convolution and three stages of blocks with 16, 32 and 64 channels, the last at a quarter of the image size."""

    def __init__(self, n_blocks: tuple[int, int, int], in_channels: int) -> None:
        super().__init__()
        self.conv = conv3x3(in_channels, 16)
        self.bn = nn.BatchNorm2d(16)
        self.stage1 = stage(n_blocks[0], 16, 16)
        self.stage2 = stage(n_blocks[1], 16, 32)
        self.stage3 = stage(n_blocks[2], 32, 64)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = F.relu_(self.bn(self.conv(images)))
        return self.stage3(self.stage2(self.stage1(maps)))


class SmallCnn(nn.Module):  # type: ignore[misc]
    """Three convolutions with batch normalisation for images of 8x8 to 32x32 pixels; trains in seconds on a CPU."""

    n_features = 64

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *conv_layer(in_channels, 32), *conv_layer(32, 64, stride=2), *conv_layer(64, 64, stride=2)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return average_over_pixels(self.layers(images))

    def split(self) -> tuple[nn.Module, nn.Module]:
        """Return the first two convolutions, and the third, each with its normalisation and ReLU. For `TwoBranches`."""
        return self.layers[:-3], self.layers[-3:]


def conv_layer(n_channels_in: int, n_channels_out: int, *, stride: int = 1) -> list[nn.Module]:
    """Return a convolution, batch normalisation and a ReLU."""
    return [conv3x3(n_channels_in, n_channels_out, stride=stride), nn.BatchNorm2d(n_channels_out), nn.ReLU()]


class Identity(nn.Module):  # type: ignore[misc]
    """Pass `in_channels` features on unchanged, to train a head alone."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.n_features = in_channels

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features


class Mlp(nn.Module):  # type: ignore[misc]
    """One hidden layer of 512 units on `in_channels` features."""

    n_features = 512

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.layer = nn.Linear(in_channels, self.n_features)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layer(features))


def torchvision_resnet(name: str, in_channels: int = 3) -> nn.Module:
    """Make an untrained ResNet or ResNeXt of torchvision.

    If there are not 3 channels, the first convolution is replaced and initialised as in torchvision.
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
    """Remove the last block of a torchvision ResNet; return everything before it, and the block. For `TwoBranches`."""
    last = net.layer4.pop(-1)
    before = OrderedDict((name, part) for name, part in net.named_children() if name not in ("avgpool", "fc"))
    return nn.Sequential(before), last


def conv3x3(n_channels_in: int, n_channels_out: int, *, stride: int = 1) -> nn.Conv2d:
    """Make a convolution initialised for ReLU by fan-in, without a bias, which batch normalisation would remove."""
    conv = nn.Conv2d(n_channels_in, n_channels_out, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return conv


def average_over_pixels(maps: torch.Tensor) -> torch.Tensor:
    """Average over pixels; unlike adaptive pooling, its backward pass is deterministic on GPUs."""
    return maps.mean(dim=(2, 3))


def stage(n_blocks: int, n_channels_in: int, n_channels_out: int) -> nn.Sequential:
    """Make a stage of `n_blocks` blocks, the first of which changes the number of channels."""
    rest = [BasicBlock(n_channels_out, n_channels_out) for _ in range(n_blocks - 1)]
    return nn.Sequential(BasicBlock(n_channels_in, n_channels_out), *rest)
