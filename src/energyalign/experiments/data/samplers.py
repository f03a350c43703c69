"""Orders that show classes as often as a method wants them, whatever their number of images.

Each is a function of the epoch alone (see `order.py`), with as many draws an epoch as there are images.
"""

from __future__ import annotations

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.experiments.data.order import Order
from energyalign.experiments.data.seeds import ORDER, generator


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
    """Draw a class with these probabilities, then one of its images, each as likely."""
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
