"""Choosing the exemplars of new classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Ints
from energyalign.experiments.incremental.herding import herding_order


def random_lists(indices: Ints, labels: Ints, classes: range, seed: int) -> tuple[Ints, ...]:
    """The images of each class in an order drawn once: its first m are a random sample for every m."""
    rng = np.random.default_rng(seed)
    return tuple(rng.permutation(indices[labels == k]) for k in classes)


def herded_lists(
    indices: Ints, labels: Ints, classes: range, features: npt.NDArray[np.float32], n_chosen: Ints
) -> tuple[Ints, ...]:
    """The first so many images of each class by herding, those that represent it best first."""
    lists = []
    for k, number in zip(classes, n_chosen, strict=True):
        members = np.flatnonzero(labels == k)
        lists.append(indices[members[herding_order(features[members].astype(np.float64), int(number))]])
    return tuple(lists)
