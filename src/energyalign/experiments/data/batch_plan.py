"""Which images make up which batch, for one process or for several that share every batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.order import Order


class Part(NamedTuple):
    """What one process loads of one batch."""

    number: int
    """Of the batch within the epoch."""
    size: int
    """Images of the whole batch, over all processes."""
    rows: Ints
    """Which rows of the whole batch these are."""
    indices: Ints
    """Which images these are."""
    positions: Ints
    """At which places of the epoch they stand."""


class BatchPlan:
    """Cuts the order of an epoch into batches.

    Rank r of w takes rows r, r + w, r + 2w, ... of every batch, so that the processes together have exactly the
    batch that one process would have had.

    The last batch has what is left over; a single image that is left over joins the batch before it. Alone it would
    stop networks with batch normalisation, which has no variance over one value, at the end of the first epoch.
    """

    def __init__(self, order: Order, batch_size: int, *, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise EnergyAlignError(f"the batch size is {batch_size}; it must be at least 1.")
        self._order = order
        self._batch_size = batch_size
        self._length = len(order(0))
        if self._length < 1:
            raise EnergyAlignError("there are no images to make batches of.")
        whole, rest = divmod(self._length, batch_size)
        if drop_last or rest == 0:
            self.n_batches, self._last = whole, batch_size
        elif rest == 1 and whole > 0:
            self.n_batches, self._last = whole, batch_size + 1
        else:
            self.n_batches, self._last = whole + 1, rest
        if self.n_batches == 0:
            raise EnergyAlignError(
                f"{self._length} images do not fill one batch of {batch_size}, and incomplete batches are dropped: "
                f"choose a batch size of at most {self._length}, or drop_last=False."
            )

    def parts(self, epoch: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Part]:
        """The parts of this rank, from batch `start` on: what an epoch that began at batch 0 would have had left."""
        if not 0 <= rank < world_size:
            raise EnergyAlignError(f"rank {rank} is not one of 0..{world_size - 1}.")
        if not 0 <= start <= self.n_batches:
            raise EnergyAlignError(f"an epoch of {self.n_batches} batches cannot start at batch {start}.")
        smallest = self._last if self.n_batches == 1 else min(self._batch_size, self._last)
        if smallest < world_size:
            # A process without images would wait for the others in every collective operation, or fail in batch norm.
            raise EnergyAlignError(
                f"the smallest batch has {smallest} images, too few for {world_size} processes: "
                "use fewer processes, larger batches or drop_last=True."
            )
        indices = np.asarray(self._order(epoch), dtype=np.int64)
        if len(indices) != self._length:
            raise EnergyAlignError(
                f"the order of epoch {epoch} has {len(indices)} images, but that of epoch 0 has {self._length}: "
                "all epochs of a run must be equally long."
            )
        return self._parts(indices, start, rank, world_size)

    def _parts(self, indices: Ints, start: int, rank: int, world_size: int) -> Iterator[Part]:
        for number in range(start, self.n_batches):
            first = number * self._batch_size
            size = self._last if number == self.n_batches - 1 else self._batch_size
            rows = np.arange(rank, size, world_size)
            yield Part(number, size, rows, indices[first + rows], first + rows)
