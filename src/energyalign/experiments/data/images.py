"""Sets of labelled images."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.names import refuse_half_characters
from energyalign.experiments.data.preparation import AsGiven, Preparation, SmallPreparation


class ImageSet(ABC):
    """A set of labelled images, in memory or in files."""

    unit: ClassVar[str] = "image"
    """Name of a sample in messages."""
    name: str
    """Name of the set in messages: the data set and its split."""
    labels: Ints
    class_names: tuple[str, ...]
    preparation: Preparation
    """How the images are augmented and normalised."""

    @property
    def n_classes(self) -> int:
        """Number of classes, including classes without images."""
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def subset(self, indices: Ints | Sequence[int]) -> Self:
        """Return these images, in this order."""

    @abstractmethod
    def read(self, index: int) -> torch.Tensor:
        """Return one image as uint8 of shape (channels, height, width)."""

    @abstractmethod
    def digest(self) -> str:
        """Return a SHA-256 of the images without their labels."""

    def _check_labels(self, n_images: int) -> None:
        """Raise unless every image has a label that is a class."""
        if self.labels.shape != (n_images,):
            raise EnergyAlignError(
                f"{self.name}: labels must have the shape ({n_images},), one for each {self.unit}, got "
                f"{self.labels.shape}."
            )
        refuse_half_characters(self.class_names)
        wrong = np.flatnonzero((self.labels < 0) | (self.labels >= self.n_classes))
        if len(wrong):
            raise EnergyAlignError(
                f"{self.name}: label {self.labels[wrong[0]]} of {self.unit} {wrong[0]} is out of range: there are "
                f"{self.n_classes} classes, numbered 0..{self.n_classes - 1}. Correct the label."
            )


@dataclass(frozen=True, eq=False)
class MemoryImages(ImageSet):
    """Small images, all of one size, in memory.

    `images` is uint8, of shape (n_images, channels, height, width).
    """

    name: str
    images: torch.Tensor
    labels: Ints
    class_names: tuple[str, ...]
    preparation: SmallPreparation | AsGiven

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            raise EnergyAlignError(
                f"{self.name}: images must be uint8 of shape (n_images, channels, height, width), got "
                f"{self.images.dtype} of shape {tuple(self.images.shape)}."
            )
        self._check_labels(len(self.images))

    def subset(self, indices: Ints | Sequence[int]) -> Self:
        chosen = np.ascontiguousarray(indices, dtype=np.int64)
        return replace(self, images=self.images[torch.from_numpy(chosen)], labels=self.labels[chosen])

    def read(self, index: int) -> torch.Tensor:
        return self.images[index]

    def digest(self) -> str:
        """Return the SHA-256 of the pixels, in their order."""
        total = hashlib.sha256(f"{tuple(self.images.shape)}\n".encode())
        total.update(self.images.cpu().contiguous().numpy().data)
        return total.hexdigest()

    def to(self, device: torch.device | str) -> Self:
        """Return the set with its images on a device: small sets fit on a GPU, which then augments them too."""
        return replace(self, images=self.images.to(device))
