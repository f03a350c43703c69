"""Random path selection: a network of parallel modules, of which more and more are active."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.backbones import PaddedShortcut, average_over_pixels, conv3x3

SMALL = (16, 16, 16, 32, 32, 32, 64, 64, 64)
"""Channels of each level for small images: one path is the ResNet for CIFAR with 2, 3 and 3 blocks."""
LARGE = (64, 64, 64, 128, 128, 256, 256, 512, 512)
"""Channels of each level for photographs: one path is ResNet-18 with shortcuts that have no parameters."""


class RandomPaths(nn.Module):  # type: ignore[misc]
    """Levels of parallel modules; a path is one module of every level, and the modules of all paths so far are active.

    A level returns ``relu(shortcut(x) + sum of module(x) over its active modules)``. The first level is a convolution
    without a shortcut; modules of the other levels are two 3x3 convolutions. A level that adds channels halves the
    image. At first the path of all first modules is active and trained. `add_path` freezes the active modules,
    parameters and batch statistics, and adds a path, whose new modules are trained.

    As in the original, there are 9 levels with 8 modules each. Where its levels add channels, the original has a
    convolution that all paths share and that keeps learning, so former paths change; its frozen modules go on updating
    their batch statistics. Here shortcuts have no parameters, and frozen modules do not change. On 32x32 pixels the
    original is 64 to 512 channels wide; `SMALL` is as wide as the ResNet-32 of the other methods.

    `channels` are the output channels of each level, which has `n_modules`. For photographs the first level has 7x7
    convolutions with stride 2, followed by 3x3 max pooling with stride 2.

    References
    ----------
    Rajasegaran, Hayat, Khan, Khan and Shao 2019, Random Path Selection for Incremental Learning.
    """

    active: torch.Tensor
    """Mask of the active modules, (levels, modules); part of the state, as is `trainable`."""
    trainable: torch.Tensor
    """Mask of the modules that learn: the modules of the newest path that no former path has."""

    def __init__(
        self, channels: Sequence[int], in_channels: int = 3, n_modules: int = 8, *, photographs: bool = False
    ) -> None:
        super().__init__()
        if n_modules < 1:
            raise EnergyAlignError(f"n_modules must be >= 1, got {n_modules}.")
        self.n_features = channels[-1]
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if photographs else nn.Identity()
        first = Level(n_modules, lambda: _first_convolution(in_channels, channels[0], photographs=photographs), None)
        self.levels = nn.ModuleList([first])
        for n_in, n_out in pairwise(channels):
            self.levels.append(_residual_level(n_modules, n_in, n_out))
        nothing = torch.zeros(len(channels), n_modules, dtype=torch.bool)
        self.register_buffer("active", nothing.clone())
        self.register_buffer("trainable", nothing.clone())
        self.register_load_state_dict_post_hook(_follow_loaded_state)
        self.add_path((0,) * len(channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        active = self.active.tolist()  # once, because it synchronises a GPU
        maps = self.pool(self.levels[0](images, active[0]))
        for level, chosen in zip(self.levels[1:], active[1:], strict=True):
            maps = level(maps, chosen)
        return average_over_pixels(maps)

    def random_path(self, random: np.random.Generator) -> tuple[int, ...]:
        """Draw a module of every level uniformly; modules of former paths may occur."""
        n_levels, n_modules = self.active.shape
        return tuple(int(number) for number in random.integers(n_modules, size=n_levels))

    def add_path(self, path: Sequence[int]) -> None:
        """Freeze the paths so far and activate another one."""
        n_levels, n_modules = self.active.shape
        if len(path) != n_levels or not all(0 <= number < n_modules for number in path):
            raise EnergyAlignError(
                f"a path must have {n_levels} numbers from 0 to {n_modules - 1}, one per level, got {tuple(path)}."
            )
        chosen = torch.zeros_like(self.active)
        chosen[torch.arange(n_levels), torch.tensor(path)] = True
        self.trainable.copy_(chosen & ~self.active)
        self.active.logical_or_(chosen)
        self.freeze_all_but_trainable()

    def freeze_all_but_trainable(self) -> None:
        """Freeze all modules except the ones in the mask `trainable`, so that only the mask has to be stored."""
        for module, learns in self._modules_and_whether_they_learn():
            module.requires_grad_(learns)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)  # batch statistics of frozen modules must not move
        for module, learns in self._modules_and_whether_they_learn():
            module.train(mode and learns)
        return self

    def _modules_and_whether_they_learn(self) -> Iterator[tuple[nn.Module, bool]]:
        for level, learns in zip(self.levels, self.trainable.tolist(), strict=True):
            yield from zip(level.parallel, learns, strict=True)


class Level(nn.Module):  # type: ignore[misc]
    """Parallel modules, each made by `make`, and a shortcut."""

    def __init__(self, n_modules: int, make: Callable[[], nn.Module], shortcut: nn.Module | None) -> None:
        super().__init__()
        self.parallel = nn.ModuleList(make() for _ in range(n_modules))
        self.shortcut = shortcut

    def forward(self, images: torch.Tensor, active: Sequence[bool]) -> torch.Tensor:
        parts = [module(images) for module, is_active in zip(self.parallel, active, strict=True) if is_active]
        if self.shortcut is not None:
            parts.append(self.shortcut(images))
        return F.relu(sum(parts[1:], parts[0]))


def _residual_level(n_modules: int, n_channels_in: int, n_channels_out: int) -> Level:
    widens = n_channels_out != n_channels_in

    def module() -> nn.Module:
        return nn.Sequential(
            conv3x3(n_channels_in, n_channels_out, stride=2 if widens else 1), nn.BatchNorm2d(n_channels_out),
            nn.ReLU(), conv3x3(n_channels_out, n_channels_out), nn.BatchNorm2d(n_channels_out),
        )  # fmt: skip

    return Level(n_modules, module, PaddedShortcut(n_channels_in, n_channels_out) if widens else nn.Identity())


def _first_convolution(in_channels: int, n_channels: int, *, photographs: bool) -> nn.Module:
    if not photographs:
        return nn.Sequential(conv3x3(in_channels, n_channels), nn.BatchNorm2d(n_channels))
    conv = nn.Conv2d(in_channels, n_channels, 7, stride=2, padding=3, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return nn.Sequential(conv, nn.BatchNorm2d(n_channels))


def _follow_loaded_state(net: RandomPaths, _incompatible_keys: object) -> None:
    # A function, because a method would stay bound to the original in a copy of the network.
    net.freeze_all_but_trainable()


def small(in_channels: int = 3) -> RandomPaths:
    """Make a network for images of 8x8 to 32x32 pixels."""
    return RandomPaths(SMALL, in_channels=in_channels)


def large(in_channels: int = 3) -> RandomPaths:
    """Make a network for photographs."""
    return RandomPaths(LARGE, in_channels=in_channels, photographs=True)
