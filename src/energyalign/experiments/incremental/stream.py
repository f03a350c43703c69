"""Classes that come in steps: which there are in which order, and what may be seen of them when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, count_of, some_of
from energyalign.experiments.data.cut import cut_long_tail
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.sources import Source, open_source
from energyalign.experiments.engine.experiment import refuse_unreadable
from energyalign.experiments.incremental.memory import Memory, n_held_out, random_lists
from energyalign.experiments.incremental.orders import class_order, subset_classes
from energyalign.experiments.train.randomness import derived_seed

if TYPE_CHECKING:
    from energyalign.experiments.incremental.config import IncrementalConfig

_Images = TypeVar("_Images", bound=ImageSet)


@dataclass(frozen=True, eq=False)
class ClassStream:
    """Training and test images whose labels are the places of their classes in the order of arrival.

    Attributes
    ----------
    train, test : ImageSet
        Of all steps. Nothing but `seen` and `test_images` gives images of them away.
    order : tuple of int
        Numbers of the classes in the data set, in their order of arrival.
    sizes : tuple of int
        Classes of each step.
    """

    train: ImageSet
    test: ImageSet
    order: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def n_steps(self) -> int:
        """How often classes come."""
        return len(self.sizes)

    def n_seen(self, step: int) -> int:
        """Classes of the steps 1, ..., `step`."""
        return sum(self.sizes[:step])

    def new_indices(self, step: int) -> Ints:
        """Which training images come with a step."""
        labels = self.train.labels
        return np.flatnonzero((labels >= self.n_seen(step - 1)) & (labels < self.n_seen(step)))

    def seen(self, indices: Ints, step: int) -> ImageSet:
        """These training images, in a set of the classes seen up to a step."""
        return _of_classes(self.train.subset(indices), self.n_seen(step))

    def test_images(self, step: int) -> ImageSet:
        """The test images of all classes seen up to a step."""
        n_seen = self.n_seen(step)
        return _of_classes(self.test.subset(np.flatnonzero(self.test.labels < n_seen)), n_seen)

    @cached_property
    def all_readable(self) -> bool:
        """True, or an error that names what cannot be read; looked into once for all runs."""
        refuse_unreadable(self.train, self.test)
        return True

    def manifest(self, dataset: str) -> Manifest:
        """The record of all images, with the classes in their order of arrival."""
        return cut_long_tail(self.train, dataset=dataset, profile="natural", test=self.test)


def step_sizes(n_classes: int, n_steps: int) -> tuple[int, ...]:
    """Classes of each step: as many in each, and one more in the first ones where they cannot be shared out evenly."""
    if n_steps < 2:
        raise EnergyAlignError(f"--steps {n_steps}: classes must come in at least 2 steps to come incrementally.")
    if n_steps >= n_classes:
        raise EnergyAlignError(
            f"{n_steps} steps are too many for {n_classes} classes: the first must have two, or there would be nothing "
            f"to tell apart. Give --steps {n_classes - 1} or fewer."
        )
    each, left_over = divmod(n_classes, n_steps)
    return tuple(each + (step < left_over) for step in range(n_steps))


def make_stream(train: ImageSet, test: ImageSet, *, subset: str, order: str, n_steps: int) -> ClassStream:
    """Some classes of a data set in some order.

    Parameters
    ----------
    train, test : ImageSet
        Of all classes of the data set.
    subset, order : str
        See `orders.py`. The order is one of the classes of the subset, which are numbered anew.
    n_steps : int
    """
    classes = np.array(subset_classes(subset, train.n_classes))
    arrival = classes[list(class_order(order, len(classes), [train.class_names[k] for k in classes]))]
    sizes = step_sizes(len(classes), n_steps)
    stream = ClassStream(_arranged(train, arrival), _arranged(test, arrival), tuple(arrival.tolist()), sizes)
    untested = np.flatnonzero(np.bincount(stream.test.labels, minlength=len(arrival)) == 0)
    if len(untested):
        names = [stream.train.class_names[k] for k in untested]
        raise EnergyAlignError(
            f"{test.name} has no image of {some_of(names)}: accuracy over all classes seen would leave them out "
            "unnoticed. Add test images of them, or take them out of the training images."
        )
    return stream


def load_stream(
    config: IncrementalConfig, data_root: str | Path | None = None, source: Source | None = None
) -> ClassStream:
    """Read the source, by default that of the config's name, and arrange its classes as the config says."""
    source = source or open_source(config.dataset, data_root)
    train, test = source.load("train"), source.load("test")
    return make_stream(train, test, subset=config.subset, order=config.order, n_steps=config.n_steps)


class StepImages(NamedTuple):
    """Which training images of the stream a step may look at, by index.

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
            f"class {name} has {count_of(int(counts.min()), 'training image')}, of which {n_held} are to be held out: "
            "add images of it, or choose a smaller memory."
        )


def _arranged(images: _Images, arrival: Ints) -> _Images:
    """The images of these classes, each with the place of its class as its label."""
    place = np.full(images.n_classes, -1)
    place[arrival] = np.arange(len(arrival))
    labels = place[images.labels]
    names = tuple(images.class_names[k] for k in arrival)
    if (labels < 0).any():
        kept = np.flatnonzero(labels >= 0)
        images, labels = images.subset(kept), labels[kept]
    return _relabelled(images, labels=labels, class_names=names)


def _of_classes(images: _Images, n_classes: int) -> _Images:
    return _relabelled(images, class_names=images.class_names[:n_classes])


def _relabelled(images: _Images, **changes: Any) -> _Images:
    """Image sets are dataclasses, which the protocol cannot say."""
    changed: _Images = replace(images, **changes)  # type: ignore[type-var]
    return changed
