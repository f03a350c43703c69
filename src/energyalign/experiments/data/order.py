"""In which order an epoch shows the images: a function of the number of the epoch and of nothing else.

A sampler is such a function too: one that repeats the images of rare classes is a class-balanced sampler. It must
give the same indices whenever it is asked for the same epoch, and as many for every epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.experiments.data.seeds import ORDER, generator

Order: TypeAlias = Callable[[int], Ints]


def shuffled(n_images: int, seed: int) -> Order:
    """Every image once, in an order drawn anew for every epoch."""

    def order(epoch: int) -> Ints:
        return generator(seed, ORDER, epoch).permutation(n_images)

    return order


def as_stored(n_images: int) -> Order:
    """Every image once, from the first to the last: for evaluation."""

    def order(_epoch: int) -> Ints:
        return np.arange(n_images)

    return order
