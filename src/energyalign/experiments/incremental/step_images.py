"""Which images a step may look at: new ones, exemplars, and those that are held out from training."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.memory import Memory, n_held_out
from energyalign.experiments.incremental.selection import random_lists
from energyalign.experiments.train.randomness import derived_seed

if TYPE_CHECKING:
    from energyalign.experiments.incremental.config import IncrementalConfig
    from energyalign.experiments.incremental.stream import ClassStream


class StepImages(NamedTuple):
    """Indices of training images of the stream.

    Attributes
    ----------
    indices : array
        To train on: new images, then exemplars.
    new_held_out : tuple of arrays
        Of each new class; empty arrays if nothing is held out.
    """

    indices: Ints
    new_held_out: tuple[Ints, ...]

    def all_held_out(self, memory: Memory) -> Ints:
        """Of old and new classes, as many of each."""
        return np.concatenate([memory.held_out_indices, *self.new_held_out])


def images_of_step(stream: ClassStream, number: int, memory: Memory, config: IncrementalConfig) -> StepImages:
    """What a step may look at, given what the memory has kept of the classes before."""
    new = stream.new_indices(number)
    classes = range(stream.n_seen(number - 1), stream.n_seen(number))
    # As many as of each old class. The first step has none, but its classes will be the old ones of the second.
    n_old = classes.start or classes.stop
    n_held = n_held_out(config.memory, n_old, config.held_out)
    labels = stream.train.labels[new]
    seed = derived_seed(config.seed, "step", number, "held out")
    held_out = tuple(of_class[:n_held] for of_class in random_lists(new, labels, classes, seed))
    _refuse_small(stream, classes, labels, n_held)
    kept = new[~np.isin(new, np.concatenate(held_out))]
    return StepImages(np.concatenate([kept, memory.indices]), held_out)


def _refuse_small(stream: ClassStream, classes: range, labels: Ints, n_held: int) -> None:
    counts = np.bincount(labels, minlength=classes.stop)[classes.start :]
    if counts.min() <= n_held:
        name = stream.train.class_names[classes.start + int(counts.argmin())]
        raise EnergyAlignError(
            f"class {name} has {counts.min()} training images, of which {n_held} are to be held out: add images of it, "
            "or choose a smaller memory."
        )
