"""Images with labels: what a source gives for one split, and what a long-tail cut takes a part of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.preparation import Preparation, SmallPreparation


class ImageSet(Protocol):
    """What training and evaluation need to know of a set of images, wherever they are kept."""

    @property
    def name(self) -> str:
        """What messages call the set: the data set and its split."""

    @property
    def labels(self) -> Ints:
        """Class number of every image."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, by number."""

    @property
    def preparation(self) -> Preparation:
        """How the images are augmented and normalised."""

    @property
    def n_classes(self) -> int:
        """How many classes there are; each may have images here or not."""

    def __len__(self) -> int: ...

    def subset(self, indices: Ints | Sequence[int]) -> Self:
        """These images, in this order."""

    def read(self, index: int) -> torch.Tensor:
        """One image as uint8 of shape (channels, height, width)."""

    def digest(self) -> str:
        """SHA-256 that changes with the images; labels do not matter."""


@dataclass(frozen=True, eq=False)
class MemoryImages:
    """Small images, all of one size, in memory.

    Parameters
    ----------
    name : str
        What messages call the set: the data set and its split.
    images : torch.Tensor
        uint8, of shape (n_images, channels, height, width).
    labels : array of shape (n_images,)
    class_names : tuple of str
    preparation : SmallPreparation
        How these images are augmented and normalised.
    """

    name: str
    images: torch.Tensor
    labels: Ints
    class_names: tuple[str, ...]
    preparation: SmallPreparation

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            raise EnergyAlignError(
                f"{self.name}: images must be uint8 of shape (n_images, channels, height, width), not "
                f"{self.images.dtype} of shape {tuple(self.images.shape)}."
            )
        check_label_range(self.name, self.labels, len(self.images), self.n_classes)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Ints | Sequence[int]) -> Self:
        """These images, in this order."""
        chosen = np.ascontiguousarray(indices, dtype=np.int64)
        return replace(self, images=self.images[torch.from_numpy(chosen)], labels=self.labels[chosen])

    def read(self, index: int) -> torch.Tensor:
        """One image as uint8 of shape (channels, height, width)."""
        return self.images[index]

    def digest(self) -> str:
        """SHA-256 of the pixels, in their order."""
        total = hashlib.sha256(f"{tuple(self.images.shape)}\n".encode())
        total.update(self.images.cpu().contiguous().numpy().data)
        return total.hexdigest()

    def to(self, device: torch.device | str) -> Self:
        """The same with the images on a device; small sets fit on a GPU, which then augments them too."""
        return replace(self, images=self.images.to(device))


def check_label_range(name: str, labels: Ints, n_images: int, n_classes: int) -> None:
    """One label for every image, and each of them a class."""
    if labels.shape != (n_images,):
        raise EnergyAlignError(f"{name}: {n_images} images need as many labels, not an array of shape {labels.shape}.")
    wrong = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(wrong):
        raise EnergyAlignError(
            f"{name}: label {labels[wrong[0]]} of image {wrong[0]} is out of range: there are {n_classes} classes, "
            f"numbered 0..{n_classes - 1}."
        )
