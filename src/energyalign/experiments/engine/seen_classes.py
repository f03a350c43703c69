"""Classes that were seen so far, step by step; a long tail has one step."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from energyalign.core.arrays import Bools, Ints
from energyalign.experiments.data.images import ImageSet


class SeenClasses:
    """What follows from the sizes of the steps so far and the training images of the last.

    Attributes
    ----------
    sizes : tuple of int
        Classes of each step up to this one, in the order of the logits' columns.
    train : ImageSet
        The training images: long-tailed, or new images and memory.
    """

    sizes: tuple[int, ...]
    train: ImageSet

    @property
    def n_new(self) -> int:
        """Classes of the last step."""
        return self.sizes[-1]

    @property
    def n_old(self) -> int:
        """Classes of the steps before; 0 for a long tail."""
        return sum(self.sizes[:-1])

    @property
    def n_seen(self) -> int:
        """All classes so far: the columns of the logits."""
        return sum(self.sizes)

    @property
    def groups(self) -> list[slice]:
        """The classes of each step so far, as columns."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    @cached_property
    def counts(self) -> Ints:
        """Training images of each class, exemplars included."""
        return np.bincount(self.train.labels, minlength=self.n_seen)

    @cached_property
    def is_new(self) -> Bools:
        """Which of the training images are of new classes."""
        return np.asarray(self.train.labels >= self.n_old)
