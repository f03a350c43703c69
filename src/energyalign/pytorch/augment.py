"""The paper's ten image transformations for evidence, and the policies that combine them.

They change a whole batch at once, each image by its own random numbers: a matrix (images, numbers) of uniform numbers
in [0, 1), of which every transformation reads its own columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError

BatchTransform: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A function of images (N, C, H, W) with values in [0, 1] and uniform numbers (N, K)."""

_GREY = (0.2989, 0.587, 0.114)  # weights of red, green and blue (ITU-R 601)
_ERASE_ATTEMPTS = 10


def flip_x(images: torch.Tensor, _numbers: torch.Tensor) -> torch.Tensor:
    """Mirror left and right."""
    return images.flip(-1)


def flip_y(images: torch.Tensor, _numbers: torch.Tensor) -> torch.Tensor:
    """Mirror top and bottom."""
    return images.flip(-2)


def rotate(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Rotate about the centre by up to 10 degrees; what comes from outside is black."""
    height, width = images.shape[-2:]
    angle = torch.deg2rad(_uniform(numbers[:, 0].double(), -10.0, 10.0))[:, None, None]
    x, y = _centred(width)[None, None, :], _centred(height)[None, :, None]
    source_x = angle.cos() * x - angle.sin() * y
    source_y = angle.sin() * x + angle.cos() * y
    return _sample(images, source_x, source_y, mode="nearest")


def distort(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Move each corner inwards, by up to a random degree of at most one half, and change the perspective."""
    height, width = images.shape[-2:]
    degree = _uniform(numbers[:, :1].double(), 0.0, 0.5)
    moved = torch.floor(
        numbers[:, 1:9].double().view(-1, 4, 2) * (degree[:, :, None] * _half(width, height) + 1).floor()
    )
    corners = torch.tensor([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], dtype=torch.float64)
    inwards = torch.tensor([[1, 1], [-1, 1], [-1, -1], [1, -1]], dtype=torch.float64)
    a, b, c, d, e, f, g, h = _homography(corners + inwards * moved, corners)[:, :, None, None].unbind(1)
    x = (torch.arange(width, dtype=torch.float64) + 0.5)[None, None, :]
    y = (torch.arange(height, dtype=torch.float64) + 0.5)[None, :, None]
    scale = g * x + h * y + 1.0
    source_x = (a * x + b * y + c) / scale - width / 2
    source_y = (d * x + e * y + f) / scale - height / 2
    return _sample(images, source_x, source_y, mode="bilinear")


def change_brightness(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Multiply by a factor from 0 to 5."""
    return _blend(images, torch.zeros(()), numbers)


def change_contrast(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Multiply the distance from the mean grey of the image by a factor from 0 to 5."""
    mean = _grey(images).flatten(1).double().mean(dim=1).float()
    return _blend(images, mean[:, None, None, None], numbers)


def change_saturation(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Multiply the distance from the grey of each pixel by a factor from 0 to 5."""
    return _blend(images, _grey(images), numbers) if images.shape[1] == 3 else images


def change_hue(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Turn the hue by up to half a circle."""
    if images.shape[1] != 3:
        return images
    red, green, blue = images.unbind(1)
    value, lowest = images.amax(dim=1), images.amin(dim=1)
    chroma = value - lowest
    safe = torch.where(chroma == 0, 1.0, chroma)
    sixth = torch.where(value == red, (green - blue) / safe, 4.0 + (red - green) / safe)
    sixth = torch.where((value == green) & (value != red), 2.0 + (blue - red) / safe, sixth)
    turned = sixth + 6.0 * _uniform(numbers[:, 0], 0.0, 0.5)[:, None, None]
    k = (turned[:, None] + torch.tensor([5.0, 3.0, 1.0])[None, :, None, None]).remainder_(6.0)
    weight = torch.minimum(k, 4.0 - k).clamp_(0.0, 1.0)
    return value[:, None] - chroma[:, None] * weight


def erase(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Blacken a rectangle of 2 to 33 % of the area, with sides in a ratio of 0.3 to 3.3.

    The first of ten drawn rectangles that fits is taken; if none does, the image stays as it is.
    """
    height, width = images.shape[-2:]
    tries = numbers[:, 2:].double().view(len(images), _ERASE_ATTEMPTS, 2)
    area = height * width * _uniform(tries[..., 0], 0.02, 0.33)
    ratio = _uniform(tries[..., 1], math.log(0.3), math.log(3.3)).exp()
    heights, widths = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (heights < height) & (widths < width)
    first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)  # of equals, the first
    h, w = (torch.where(fits.any(dim=1), sides.gather(1, first)[:, 0], 0.0) for sides in (heights, widths))
    top, left = (numbers[:, 0].double() * (height - h + 1)).floor(), (numbers[:, 1].double() * (width - w + 1)).floor()
    rows, columns = torch.arange(height)[None, :], torch.arange(width)[None, :]
    in_rows = (rows >= top[:, None]) & (rows < (top + h)[:, None])
    in_columns = (columns >= left[:, None]) & (columns < (left + w)[:, None])
    return images.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0.0)


class Transformation(NamedTuple):
    """A function of images and numbers, and how many numbers it reads."""

    apply: BatchTransform
    n_numbers: int


# The transformations in the paper's appendix, with its ranges.
TRANSFORMATIONS: dict[str, Transformation] = {
    "flip-x": Transformation(flip_x, 0),
    "flip-y": Transformation(flip_y, 0),
    "rotate": Transformation(rotate, 1),
    "affine": Transformation(rotate, 1),  # the paper's affine map has a range for the angle only
    "perspective": Transformation(distort, 9),
    "brightness": Transformation(change_brightness, 1),
    "contrast": Transformation(change_contrast, 1),
    "saturation": Transformation(change_saturation, 1),
    "hue": Transformation(change_hue, 1),
    "erase": Transformation(erase, 2 + 2 * _ERASE_ATTEMPTS),
}
N_NUMBERS = len(TRANSFORMATIONS) + sum(each.n_numbers for each in TRANSFORMATIONS.values())
"""Uniform numbers per image: one to choose each transformation, and those that the transformations read."""


def keep(images: torch.Tensor, _numbers: torch.Tensor) -> torch.Tensor:
    """Return the images unchanged."""
    return images


def crop_and_flip(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Pad by an eighth, crop, and flip with probability one half, as in the training of most image models."""
    height, width = images.shape[-2:]
    padding = height // 8, width // 8
    top, left = ((numbers[:, k] * (2 * pad + 1)).long() for k, pad in enumerate(padding))
    return crop_padded(images, top, left, numbers[:, 2] < 0.5, padding)


def crop_padded(
    images: torch.Tensor, top: torch.Tensor, left: torch.Tensor, flipped: torch.Tensor, padding: tuple[int, int]
) -> torch.Tensor:
    """Pad a batch with black, crop each image to its former size at its own corner, and mirror some of them."""
    n, channels, height, width = images.shape
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, width)
    columns = left[:, None] + torch.where(flipped[:, None], columns.flip(1), columns)
    # One gather crops and flips the whole batch; a loop over images would cost more than a small network.
    chosen = (rows[:, :, None] * (width + 2 * padding[1]) + columns[:, None, :]).view(n, 1, -1)
    padded = F.pad(images, (padding[1], padding[1], padding[0], padding[0])).flatten(2)
    return padded.gather(2, chosen.expand(n, channels, -1)).view(images.shape)


def apply_one(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Apply one random transformation to each image."""
    return _apply_smallest(1, images, numbers)


def apply_two(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Apply two different random transformations to each image."""
    return _apply_smallest(2, images, numbers)


def apply_half(images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Apply every transformation with probability one half: five on average."""
    return _apply(numbers[:, : len(TRANSFORMATIONS)] < 0.5, images, numbers)


def _apply_smallest(n: int, images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Apply the `n` transformations whose numbers are the smallest: every choice is equally likely."""
    ranks = numbers[:, : len(TRANSFORMATIONS)].argsort(dim=1, stable=True).argsort(dim=1)
    return _apply(ranks < n, images, numbers)


def _apply(chosen: torch.Tensor, images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Apply the chosen transformations in the order of the paper's table."""
    images, start = images.clone(), len(TRANSFORMATIONS)
    for column, (apply, n_numbers) in enumerate(TRANSFORMATIONS.values()):
        rows = chosen[:, column].nonzero()[:, 0]
        if len(rows):
            images[rows] = apply(images[rows], numbers[rows, start : start + n_numbers])
        start += n_numbers
    return images


class Policy(NamedTuple):
    """How images are augmented before they become evidence."""

    transform: BatchTransform
    description: str


# The paper lists its transformations, but not how many are applied to an image.
POLICIES: dict[str, Policy] = {
    "none": Policy(keep, "no augmentation"),
    "crop-flip": Policy(crop_and_flip, "the usual training augmentation: padded crop, horizontal flip"),
    "one": Policy(apply_one, "one of the paper's ten transformations, at random for every draw"),
    "two": Policy(apply_two, "two different transformations of the ten"),
    "half": Policy(apply_half, "each of the ten with probability one half"),
}


def make_policy(name: str) -> BatchTransform:
    """Return the policy of this name: a function of images (N, C, H, W) in [0, 1] and (N, N_NUMBERS) random numbers."""
    if name not in POLICIES:
        raise EnergyAlignError(f"unknown augmentation policy {name!r}: choose one of {', '.join(POLICIES)}.")
    return POLICIES[name].transform


def _uniform(numbers: torch.Tensor, low: float, high: float) -> torch.Tensor:
    return low + (high - low) * numbers


def _centred(n: int) -> torch.Tensor:
    """Return the positions of n pixels, measured from their centre."""
    return torch.arange(n, dtype=torch.float64) - (n - 1) / 2


def _half(width: int, height: int) -> torch.Tensor:
    return torch.tensor([width // 2, height // 2], dtype=torch.float64)


def _sample(images: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, mode: str) -> torch.Tensor:
    """Read images (N, C, H, W) at positions (N, H, W), measured from the centre; outside is black."""
    height, width = images.shape[-2:]
    grid = torch.stack([x / (width / 2), y / (height / 2)], dim=-1).to(images.dtype)
    return F.grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False)


def _homography(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return the coefficients a, ..., h of the maps (N, 8) that take four points (N, 4, 2) to four others (4, 2).

    x' = (a x + b y + c) / (g x + h y + 1), y' = (d x + e y + f) / (g x + h y + 1).
    """
    x, y = start.unbind(-1)
    goal_x, goal_y = end.expand_as(start).unbind(-1)
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    rows_x = torch.stack([x, y, one, zero, zero, zero, -x * goal_x, -y * goal_x], dim=-1)
    rows_y = torch.stack([zero, zero, zero, x, y, one, -x * goal_y, -y * goal_y], dim=-1)
    return torch.linalg.solve(torch.cat([rows_x, rows_y], dim=1), torch.cat([goal_x, goal_y], dim=1))


def _grey(images: torch.Tensor) -> torch.Tensor:
    """Return the grey of each pixel (N, 1, H, W); images that are not RGB are grey already."""
    if images.shape[1] != 3:
        return images
    return (images * torch.tensor(_GREY)[:, None, None]).sum(dim=1, keepdim=True)


def _blend(images: torch.Tensor, grey: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Multiply the distance from grey by a factor from 0 to 5, within [0, 1]."""
    factor = _uniform(numbers[:, :1], 0.0, 5.0)[:, :, None, None]
    return (factor * images + (1.0 - factor) * grey).clamp_(0.0, 1.0)
