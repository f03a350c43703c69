"""Which images come when: orders and samplers of an epoch, and the batches they are cut into.

Every random number is a function of the seed and of what it is for, so a resumed run needs no stored generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError

ORDER, AUGMENTATION, EVIDENCE = range(3)  # one stream each: the order of an epoch tells nothing of its augmentation

Order: TypeAlias = Callable[[int], Ints]
"""From the number of an epoch to indices of images: the same for the same epoch, and as many for every epoch."""


def generator(seed: int, purpose: int, *key: int) -> np.random.Generator:
    """The generator of `seed` for one purpose, epoch, batch, ...; the same arguments give the same numbers."""
    return np.random.default_rng(_sequence(seed, purpose, *key))


def torch_seed(seed: int, purpose: int, *key: int) -> int:
    """A seed for a torch generator, as independent of all others as `generator` is."""
    # 32 bits, because torch's generator for the CPU uses no more of a seed.
    return int(_sequence(seed, purpose, *key).generate_state(1, np.uint32)[0])


def _sequence(seed: int, purpose: int, *key: int) -> np.random.SeedSequence:
    if seed < 0:
        raise EnergyAlignError(f"the seed is {seed}; it must be 0 or more.")
    # As a spawn key and not as entropy: in a list of entropy, trailing zeros make no difference.
    return np.random.SeedSequence(seed, spawn_key=(purpose, *key))


def shuffled(n_images: int, seed: int) -> Order:
    """Every image once, in an order drawn anew for every epoch."""
    return lambda epoch: generator(seed, ORDER, epoch).permutation(n_images)


def as_stored(n_images: int) -> Order:
    """Every image once, from the first to the last: for evaluation."""
    return lambda _epoch: np.arange(n_images)


def class_balanced(labels: Ints, seed: int) -> Order:
    """Every class as likely, and every image of a class as likely; with replacement."""
    present = np.bincount(labels) > 0
    return weighted_classes(labels, present / present.sum(), seed)


def reversed_classes(labels: Ints, seed: int) -> Order:
    """A class with n images is drawn with probability proportional to 1 / n: BBN's reversed sampler."""
    return weighted_classes(labels, reversed_probabilities(np.bincount(labels)), seed)


def reversed_probabilities(counts: Ints) -> Floats:
    """Of each class; a class without images has none."""
    weights = np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)
    probabilities: Floats = weights / weights.sum()
    return probabilities


def weighted_classes(labels: Ints, probabilities: Floats, seed: int) -> Order:
    """As many draws as images: a class with these probabilities, then one of its images, each as likely."""
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
    """Classes take turns in random order, each giving a few images a visit, its own images in random order.

    The sampler of OLTR and Decoupling: four images of a class at a time.
    """
    members = [of_class for k in range(int(labels.max()) + 1) if len(of_class := np.flatnonzero(labels == k))]

    def order(epoch: int) -> Ints:
        rng = generator(seed, ORDER, epoch)
        n_visits = -(-len(labels) // per_visit)
        n_rounds = -(-n_visits // len(members))
        visits = np.concatenate([rng.permutation(len(members)) for _ in range(n_rounds)])[:n_visits]
        queues = [_endless(of_class, n_rounds * per_visit, rng) for of_class in members]
        turns = np.zeros(len(members), dtype=np.int64)
        drawn = []
        for k in visits:
            drawn.append(queues[k][turns[k] : turns[k] + per_visit])
            turns[k] += per_visit
        return np.concatenate(drawn)[: len(labels)]

    return order


def _endless(images: Ints, n: int, rng: np.random.Generator) -> Ints:
    """Image after image in random order, shuffled anew when all have been seen, until there are n."""
    rounds = -(-n // len(images))
    return np.concatenate([rng.permutation(images) for _ in range(rounds)])[:n]


class BatchPart(NamedTuple):
    """What one process loads of one batch."""

    number: int  # of the batch within the epoch
    size: int  # of the whole batch, over all processes
    rows: Ints  # of the whole batch
    indices: Ints  # of the images
    positions: Ints  # of the images in the epoch


class BatchPlan:
    """Cuts the order of an epoch into batches.

    Rank r of w takes rows r, r + w, r + 2w, ... of every batch, so that the processes together have exactly the
    batch that one process would have had.

    The last batch has what is left over; a single image that is left over joins the batch before it. Alone it would
    stop networks with batch normalisation, which has no variance over one value, at the end of the first epoch.
    """

    def __init__(self, order: Order, batch_size: int) -> None:
        if batch_size < 1:
            raise EnergyAlignError(f"the batch size is {batch_size}; it must be at least 1.")
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
                "use fewer processes or larger batches."
            )
        indices = np.asarray(self._order(epoch), dtype=np.int64)
        if len(indices) != self._length:
            raise EnergyAlignError(
                f"the order of epoch {epoch} has {len(indices)} images, but that of epoch 0 has {self._length}: "
                "all epochs of a run must be equally long."
            )
        return self._parts(indices, start, rank, world_size)

    def _parts(self, indices: Ints, start: int, rank: int, world_size: int) -> Iterator[BatchPart]:
        for number in range(start, self.n_batches):
            first = number * self._batch_size
            size = self._last if number == self.n_batches - 1 else self._batch_size
            rows = np.arange(rank, size, world_size)
            yield BatchPart(number, size, rows, indices[first + rows], first + rows)
