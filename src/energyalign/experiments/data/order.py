"""Samplers: the order of the images in an epoch, and the batches it is divided into.

Every random number is a function of the seed and of its purpose, so a resumed run needs no stored generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError

ORDER, AUGMENTATION, EVIDENCE = range(3)  # purposes with independent random streams

Order: TypeAlias = Callable[[int], Ints]
"""Function from the number of an epoch to indices of images; all epochs must be equally long."""


def generator(seed: int, purpose: int, *key: int) -> np.random.Generator:
    """Return the generator of a seed for one purpose and one epoch, batch, ...; equal arguments give equal numbers."""
    return np.random.default_rng(_sequence(seed, purpose, *key))


def torch_seed(seed: int, purpose: int, *key: int) -> int:
    """Return a seed for a torch generator, independent of all other seeds, as in `generator`."""
    # torch's generator for the CPU uses no more than 32 bits of a seed.
    return int(_sequence(seed, purpose, *key).generate_state(1, np.uint32)[0])


def _sequence(seed: int, purpose: int, *key: int) -> np.random.SeedSequence:
    if seed < 0:
        raise EnergyAlignError(f"the seed must be >= 0, got {seed}.")
    # A spawn key, not a list of entropy, in which trailing zeros make no difference.
    return np.random.SeedSequence(seed, spawn_key=(purpose, *key))


def shuffled(n_images: int, seed: int) -> Order:
    """Sample every image once, shuffled anew in every epoch."""
    return lambda epoch: generator(seed, ORDER, epoch).permutation(n_images)


def as_stored(n_images: int) -> Order:
    """Sample every image once, from the first to the last, for evaluation."""
    return lambda _epoch: np.arange(n_images)


def class_balanced(labels: Ints, seed: int) -> Order:
    """Sample every class with equal probability, and its images uniformly; with replacement."""
    present = np.bincount(labels) > 0
    return weighted_classes(labels, present / present.sum(), seed)


def reversed_classes(labels: Ints, seed: int) -> Order:
    """Sample a class of n images with probability proportional to 1 / n: the reversed sampler of BBN."""
    return weighted_classes(labels, reversed_probabilities(np.bincount(labels)), seed)


def reversed_probabilities(counts: Ints) -> Floats:
    """Return class probabilities proportional to 1 / count; 0 for a class without images."""
    weights = np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)
    probabilities: Floats = weights / weights.sum()
    return probabilities


def weighted_classes(labels: Ints, probabilities: Floats, seed: int) -> Order:
    """Draw as many samples as there are images: a class with these probabilities, then one of its images uniformly."""
    members = [np.flatnonzero(labels == k) for k in range(len(probabilities))]
    sizes = np.array([len(of_class) for of_class in members])
    by_class, first = np.concatenate(members), np.cumsum(sizes) - sizes

    def order(epoch: int) -> Ints:
        rng = generator(seed, ORDER, epoch)
        classes = rng.choice(len(probabilities), size=len(labels), p=probabilities)
        drawn: Ints = by_class[first[classes] + rng.integers(sizes[classes])]
        return drawn

    return order


def class_aware(labels: Ints, seed: int, *, per_visit: int = 4) -> Order:
    """Visit all classes in random order, again and again, and take a few images of a class at each visit.

    The sampler of OLTR and Decoupling, with four images per visit. The images of a class come in random order.
    """
    members = [of_class for k in range(int(labels.max()) + 1) if len(of_class := np.flatnonzero(labels == k))]

    def order(epoch: int) -> Ints:
        rng = generator(seed, ORDER, epoch)
        n_visits = -(-len(labels) // per_visit)
        n_rounds = -(-n_visits // len(members))
        visits = np.concatenate([rng.permutation(len(members)) for _ in range(n_rounds)])[:n_visits]
        queues = [_repeat_shuffled(of_class, n_rounds * per_visit, rng) for of_class in members]
        turns = np.zeros(len(members), dtype=np.int64)
        drawn = []
        for k in visits:
            drawn.append(queues[k][turns[k] : turns[k] + per_visit])
            turns[k] += per_visit
        return np.concatenate(drawn)[: len(labels)]

    return order


def _repeat_shuffled(images: Ints, n: int, rng: np.random.Generator) -> Ints:
    """Return n images: all of them shuffled, then shuffled again, and so on."""
    rounds = -(-n // len(images))
    return np.concatenate([rng.permutation(images) for _ in range(rounds)])[:n]


class BatchPart(NamedTuple):
    """The part of a batch that one process loads."""

    number: int  # of the batch within the epoch
    size: int  # of the whole batch, over all processes
    rows: Ints  # of the whole batch
    indices: Ints  # of the images
    positions: Ints  # of the images in the epoch


class BatchPlan:
    """Cuts the order of an epoch into batches.

    Rank r of w takes rows r, r + w, r + 2w, ... of every batch, so that all ranks together have the batch of a single
    process.

    The last batch has the remaining images. A single remaining image joins the batch before it: batch normalisation
    fails on a batch of one.
    """

    def __init__(self, order: Order, batch_size: int) -> None:
        if batch_size < 1:
            raise EnergyAlignError(f"the batch size must be >= 1, got {batch_size}.")
        self._order = order
        self._batch_size = batch_size
        self._length = len(order(0))
        if self._length < 1:
            raise EnergyAlignError("there are no images to make batches of.")
        whole, rest = divmod(self._length, batch_size)
        if rest == 0:
            self.n_batches, self._last = whole, batch_size
        elif rest == 1 and whole > 0:
            self.n_batches, self._last = whole, batch_size + 1
        else:
            self.n_batches, self._last = whole + 1, rest

    def parts(self, epoch: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[BatchPart]:
        """Return the parts of this rank, from batch `start` of an epoch on."""
        if not 0 <= rank < world_size:
            raise EnergyAlignError(f"the rank must be in 0..{world_size - 1}, got {rank}.")
        if not 0 <= start <= self.n_batches:
            raise EnergyAlignError(f"the first batch must be in 0..{self.n_batches}, got {start}.")
        smallest = self._last if self.n_batches == 1 else min(self._batch_size, self._last)
        if smallest < world_size:
            # A process without images would hang in collective operations, or fail in batch normalisation.
            raise EnergyAlignError(
                f"the smallest batch has {smallest} images, too few for {world_size} processes: "
                "use fewer processes or larger batches."
            )
        indices = np.asarray(self._order(epoch), dtype=np.int64)
        if len(indices) != self._length:
            raise EnergyAlignError(
                f"all epochs must have {self._length} images like epoch 0, got {len(indices)} in epoch {epoch}."
            )
        return self._parts(indices, start, rank, world_size)

    def _parts(self, indices: Ints, start: int, rank: int, world_size: int) -> Iterator[BatchPart]:
        for number in range(start, self.n_batches):
            first = number * self._batch_size
            size = self._last if number == self.n_batches - 1 else self._batch_size
            rows = np.arange(rank, size, world_size)
            yield BatchPart(number, size, rows, indices[first + rows], first + rows)
