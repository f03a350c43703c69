"""The paper's ten image transformations for evidence, and the policies that combine them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torchvision.transforms import v2

from energyalign.core.errors import EnergyAlignError

ImageTransform: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class Perspective(torch.nn.Module):  # type: ignore[misc]
    """Perspective distortion of random degree; in torchvision the degree is fixed."""

    def __init__(self, degree: tuple[float, float]) -> None:
        super().__init__()
        self.degree = degree

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the distorted image."""
        low, high = self.degree
        degree = low + (high - low) * float(torch.rand(()))
        distorted: torch.Tensor = v2.RandomPerspective(distortion_scale=degree, p=1.0)(image)
        return distorted


# The transformations in the paper's appendix, with its ranges. Each draws its parameters from torch's global generator.
TRANSFORMATIONS: dict[str, ImageTransform] = {
    "flip-x": v2.RandomHorizontalFlip(p=1.0),
    "flip-y": v2.RandomVerticalFlip(p=1.0),
    "rotate": v2.RandomRotation(degrees=10),
    "affine": v2.RandomAffine(degrees=10),
    "perspective": Perspective(degree=(0.0, 0.5)),
    "brightness": v2.ColorJitter(brightness=(0.0, 5.0)),
    "contrast": v2.ColorJitter(contrast=(0.0, 5.0)),
    "saturation": v2.ColorJitter(saturation=(0.0, 5.0)),
    "hue": v2.ColorJitter(hue=(0.0, 0.5)),
    "erase": v2.RandomErasing(p=1.0, scale=(0.02, 0.33), ratio=(0.3, 3.3)),
}


def keep(image: torch.Tensor) -> torch.Tensor:
    """Return the image unchanged."""
    return image


def crop_and_flip(image: torch.Tensor) -> torch.Tensor:
    """Pad by an eighth, crop, and flip with probability one half, as in the training of most image models."""
    height, width = image.shape[-2:]
    padding = [width // 8, height // 8]
    cropped: torch.Tensor = v2.RandomCrop((height, width), padding=padding)(image)
    return cropped.flip(-1) if float(torch.rand(())) < 0.5 else cropped


def apply_one(image: torch.Tensor) -> torch.Tensor:
    """Apply one random transformation."""
    return _apply(torch.randint(len(TRANSFORMATIONS), (1,)), image)


def apply_two(image: torch.Tensor) -> torch.Tensor:
    """Apply two different random transformations."""
    return _apply(torch.randperm(len(TRANSFORMATIONS))[:2], image)


def apply_half(image: torch.Tensor) -> torch.Tensor:
    """Apply every transformation with probability one half: five on average."""
    return _apply(torch.nonzero(torch.rand(len(TRANSFORMATIONS)) < 0.5), image)


def _apply(chosen: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    table = tuple(TRANSFORMATIONS.values())
    for index in chosen.flatten().sort().values.tolist():  # in the order of the paper's table
        image = table[index](image)
    return image


class Policy(NamedTuple):
    """How an image is augmented before it becomes evidence."""

    transform: ImageTransform
    description: str


# The paper lists its transformations, but not how many are applied to an image.
POLICIES: dict[str, Policy] = {
    "none": Policy(keep, "no augmentation"),
    "crop-flip": Policy(crop_and_flip, "the usual training augmentation: padded crop, horizontal flip"),
    "one": Policy(apply_one, "one of the paper's ten transformations, at random for every draw"),
    "two": Policy(apply_two, "two different transformations of the ten"),
    "half": Policy(apply_half, "each of the ten with probability one half"),
}


def make_policy(name: str) -> ImageTransform:
    """Return the policy of this name: a function of an image (channels, height, width) with values in [0, 1]."""
    if name not in POLICIES:
        raise EnergyAlignError(f"unknown augmentation policy {name!r}: choose one of {', '.join(POLICIES)}.")
    return POLICIES[name].transform
