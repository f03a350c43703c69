"""Two loaders as one that yields a batch of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.loader import Loader


class Pair(NamedTuple):
    """Two batches of the same size, each with images and labels as in `Batch`."""

    images: torch.Tensor
    labels: torch.Tensor
    other_images: torch.Tensor
    other_labels: torch.Tensor


class PairedLoader:
    """The first batch of both, then the second of both, and so on.

    Parameters
    ----------
    first, second : Loader
        With epochs of the same length. With seeds of their own, or the two would augment alike.
    """

    def __init__(self, first: Loader, second: Loader) -> None:
        if first.n_batches != second.n_batches:
            raise EnergyAlignError(f"{first.n_batches} batches cannot be paired with {second.n_batches}.")
        self._first, self._second = first, second

    @property
    def n_batches(self) -> int:
        """Pairs of an epoch."""
        return self._first.n_batches

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Pair]:
        """Pairs `start`, `start` + 1, ... of an epoch, and of these the part of one rank."""
        first, second = (
            loader.epoch(number, start=start, rank=rank, world_size=world_size)
            for loader in (self._first, self._second)
        )
        return (Pair(*batch, *other) for batch, other in zip(first, second, strict=True))
