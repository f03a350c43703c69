"""Classes that come in steps: their order, and which images each step may see."""

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
    """Training and test images, labelled by the position of their class in the order of arrival.

    Attributes
    ----------
    train, test : ImageSet
        Images of all steps. Steps get theirs from `seen` and `test_images` only.
    order : tuple of int
        Numbers of the classes in the data set, in their order of arrival.
    sizes : tuple of int
        Number of classes of each step.
    """

    train: ImageSet
    test: ImageSet
    order: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def n_steps(self) -> int:
        return len(self.sizes)

    def n_seen(self, step: int) -> int:
        """Return the number of classes of the steps 1, ..., `step`."""
        return sum(self.sizes[:step])

    def new_indices(self, step: int) -> Ints:
        """Return the indices of the training images that are new in a step."""
        labels = self.train.labels
        return np.flatnonzero((labels >= self.n_seen(step - 1)) & (labels < self.n_seen(step)))

    def seen(self, indices: Ints, step: int) -> ImageSet:
        """Return these training images, in a set of the classes seen up to a step."""
        return _keep_classes(self.train.subset(indices), self.n_seen(step))

    def test_images(self, step: int) -> ImageSet:
        """Return the test images of all classes seen up to a step."""
        n_seen = self.n_seen(step)
        return _keep_classes(self.test.subset(np.flatnonzero(self.test.labels < n_seen)), n_seen)

    @cached_property
    def all_readable(self) -> bool:
        """True if every image can be read; raises an error that names unreadable images. Checked only once."""
        refuse_unreadable(self.train, self.test)
        return True

    def manifest(self, dataset: str) -> Manifest:
        """Return the manifest of all images, with the classes in their order of arrival."""
        return cut_long_tail(self.train, dataset=dataset, profile="natural", test=self.test)


def step_sizes(n_classes: int, n_steps: int) -> tuple[int, ...]:
    """Divide classes evenly among steps; the first steps get one more if there is a remainder."""
    if n_steps < 2:
        raise EnergyAlignError(f"--steps must be >= 2, got {n_steps}.")
    if n_classes < 3:
        raise EnergyAlignError(
            f"steps need at least 3 classes, two of them in the first step, got {n_classes}: choose more classes."
        )
    if n_steps >= n_classes:
        raise EnergyAlignError(
            f"{n_steps} steps are too many for {n_classes} classes, because the first step needs two: give --steps "
            f"{n_classes - 1} or fewer."
        )
    each, left_over = divmod(n_classes, n_steps)
    return tuple(each + (step < left_over) for step in range(n_steps))


def make_stream(train: ImageSet, test: ImageSet, *, subset: str, order: str, n_steps: int) -> ClassStream:
    """Arrange the classes of a subset in an order (both from `orders.py`); `train` and `test` hold all classes."""
    classes = np.array(subset_classes(subset, train.n_classes))
    arrival = classes[list(class_order(order, len(classes), [train.class_names[k] for k in classes]))]
    sizes = step_sizes(len(classes), n_steps)
    stream = ClassStream(_arrange(train, arrival), _arrange(test, arrival), tuple(arrival.tolist()), sizes)
    untested = np.flatnonzero(np.bincount(stream.test.labels, minlength=len(arrival)) == 0)
    if len(untested):
        names = [stream.train.class_names[k] for k in untested]
        raise EnergyAlignError(
            f"{test.name} has no {test.unit} of {some_of(names)}, so accuracies would silently leave them out: add "
            f"test {test.unit}s of them, or remove them from the training {test.unit}s."
        )
    return stream


def load_stream(
    config: IncrementalConfig, data_root: str | Path | None = None, source: Source | None = None
) -> ClassStream:
    """Load the source, by default the config's, and arrange its classes as the config says."""
    source = source or open_source(config.dataset, data_root)
    train, test = source.load("train"), source.load("test")
    return make_stream(train, test, subset=config.subset, order=config.order, n_steps=config.n_steps)


class StepImages(NamedTuple):
    """The training images that a step may see, as indices in the stream.

    Attributes
    ----------
    indices : array
        Images to train on: new images, then exemplars.
    new_held_out : tuple of arrays
        Held-out images of each new class; empty arrays if nothing is held out.
    """

    indices: Ints
    new_held_out: tuple[Ints, ...]

    def all_held_out(self, memory: Memory) -> Ints:
        """Return the held-out images of old and new classes."""
        return np.concatenate([memory.held_out_indices, *self.new_held_out])


def images_of_step(stream: ClassStream, number: int, memory: Memory, config: IncrementalConfig) -> StepImages:
    """Choose the images of a step, given the memory of earlier classes."""
    new = stream.new_indices(number)
    classes = range(stream.n_seen(number - 1), stream.n_seen(number))
    # Hold out as many images of each new class as of an old one. The classes of the first step will be the old
    # classes of the second.
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
        name, unit = stream.train.class_names[classes.start + int(counts.argmin())], stream.train.unit
        raise EnergyAlignError(
            f"class {name} has {count_of(int(counts.min()), f'training {unit}')}, of which {n_held} must be held out: "
            f"add {unit}s of it, or choose a smaller memory."
        )


def _arrange(images: _Images, arrival: Ints) -> _Images:
    """Keep the images of these classes, labelled by the position of their class."""
    place = np.full(images.n_classes, -1)
    place[arrival] = np.arange(len(arrival))
    labels = place[images.labels]
    names = tuple(images.class_names[k] for k in arrival)
    if (labels < 0).any():
        kept = np.flatnonzero(labels >= 0)
        images, labels = images.subset(kept), labels[kept]
    return _replace(images, labels=labels, class_names=names)


def _keep_classes(images: _Images, n_classes: int) -> _Images:
    return _replace(images, class_names=images.class_names[:n_classes])


def _replace(images: _Images, **changes: Any) -> _Images:
    """Replace fields of an image set, which is a dataclass, though its protocol cannot say so."""
    changed: _Images = replace(images, **changes)  # type: ignore[type-var]
    return changed
