"""What a learner sees of a run: its config, the training images and their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from energyalign.experiments.data.loader import Loader
from energyalign.experiments.data.order import Order
from energyalign.experiments.train.randomness import derived_seed

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.longtail.config import LongTailConfig


@dataclass(frozen=True, eq=False)
class Setting:
    """All that losses, samplers and networks may depend on.

    Attributes
    ----------
    counts : torch.Tensor
        Training images per class, float32, on the device.
    workers : int
        Processes that read images.
    """

    config: LongTailConfig
    train: ImageSet
    counts: torch.Tensor
    workers: int
    device: torch.device

    @property
    def n_epochs(self) -> int:
        """Of the training."""
        return self.config.recipe.epochs

    @property
    def in_channels(self) -> int:
        """Of the images."""
        return int(self.train.read(0).shape[0])

    def seed(self, *what: str | int) -> int:
        """A seed for this purpose, derived from the seed of the run."""
        return derived_seed(self.config.seed, *what)

    def loader(self, *, order: Order | None = None, purpose: str = "data", batch_size: int | None = None) -> Loader:
        """Augmented batches; in a new order every epoch, or in the order that a sampler gives."""
        return Loader(
            self.train, batch_size=batch_size or self.config.recipe.batch_size, seed=self.seed(purpose), order=order,
            workers=self.workers, device=self.device,
        )  # fmt: skip
