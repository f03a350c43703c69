"""Prepare images for a network: augmentation, then normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from energyalign.core.arrays import Ints

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Normalisation:
    """Normalisation (pixel / 255 - mean) / std, for each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return float32 images of uint8 images of shape (N, C, H, W), on the same device."""
        # Scale mean and std by 255 instead of the images: one pass less over the large tensor.
        mean, std = (
            torch.tensor(values, dtype=torch.float32, device=images.device).view(-1, 1, 1) * 255
            for values in (self.mean, self.std)
        )
        return images.to(torch.float32).sub_(mean).div_(std)


@dataclass(frozen=True)
class SmallPreparation:
    """Batches of small images: random crops of the zero-padded images, each flipped with probability one half.

    As in the published CIFAR recipes (He et al. 2016; LDAM, BBN): padding by 4, with black before normalisation.
    """

    normalise: Normalisation
    padding: int = 4
    flip: bool = True

    def draw(self, n_images: int, rng: np.random.Generator) -> Ints:
        """Draw (top, left, flipped) for every image of a batch."""
        draws = np.zeros((n_images, 3), dtype=np.int64)
        draws[:, :2] = rng.integers(2 * self.padding + 1, size=(n_images, 2))
        if self.flip:
            draws[:, 2] = rng.integers(2, size=n_images)
        return draws

    def augment(self, images: torch.Tensor, draws: Ints) -> torch.Tensor:
        """Crop and flip uint8 images as drawn."""
        from energyalign.pytorch.augment import crop_padded

        top, left, flipped = torch.from_numpy(draws).to(images.device).unbind(1)
        return crop_padded(images, top, left, flipped.bool(), (self.padding, self.padding))


@dataclass(frozen=True)
class LargePreparation:
    """Large images, one at a time in worker processes, with torchvision's transformations of tensors.

    Training: a random crop of 8 to 100 % of the area, resized to `side`; a horizontal flip with probability one half;
    brightness, contrast and saturation changed by up to `jitter`. Evaluation: the shorter side resized to `resize`,
    then a central crop of `side`. The paper only crops and flips; Decoupling and De-confound also jitter (0.4 on
    ImageNet-LT).
    """

    normalise: Normalisation
    jitter: float = 0.0
    side: int = 224
    resize: int = 256

    def transformation(self, *, augment: bool) -> Any:
        """Return a callable from a uint8 tensor of shape (C, H, W) to one of shape (C, side, side)."""
        from torchvision.transforms import v2  # slow to import, and not needed for small images

        if not augment:
            return v2.Compose([v2.Resize(self.resize), v2.CenterCrop(self.side)])
        steps = [v2.RandomResizedCrop(self.side), v2.RandomHorizontalFlip()]
        if self.jitter:
            steps.append(v2.ColorJitter(self.jitter, self.jitter, self.jitter))
        return v2.Compose(steps)


class Unchanged(Normalisation):
    """No normalisation."""

    def __call__(self, samples: torch.Tensor) -> torch.Tensor:
        """Return the samples unchanged."""
        return samples


@dataclass(frozen=True)
class AsGiven:
    """No preparation, for features."""

    normalise: ClassVar[Normalisation] = Unchanged((), ())
    flip: ClassVar[bool] = False

    def draw(self, n_samples: int, rng: np.random.Generator) -> Ints:  # noqa: ARG002
        """Return empty draws."""
        return np.zeros((n_samples, 0), dtype=np.int64)

    def augment(self, vectors: torch.Tensor, draws: Ints) -> torch.Tensor:  # noqa: ARG002
        """Return the vectors unchanged."""
        return vectors


Preparation: TypeAlias = SmallPreparation | LargePreparation | AsGiven

IMAGENET = LargePreparation(Normalisation(IMAGENET_MEAN, IMAGENET_STD))
