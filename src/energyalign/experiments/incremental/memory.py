"""The memory of old classes: how many exemplars are kept, which, and in which order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError

SELECTIONS: dict[str, str] = {
    "none": "nothing is kept",
    "random": "drawn at random, as in the paper",
    "herding": "those whose mean feature stays nearest to that of their class",
    "all": "everything is kept: for joint training, the upper bound",
}


@dataclass(frozen=True)
class MemoryPlan:
    """How many exemplars are kept, a number that all old classes share, and how they are chosen.

    Attributes
    ----------
    selection : str
        A name of `SELECTIONS`.
    total : int
        Exemplars of all old classes together; 0 for ``none`` and ``all``, which need no number.
    """

    selection: str
    total: int = 0

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise EnergyAlignError(f"unknown memory {self.selection!r}: choose one of {', '.join(SELECTIONS)}.")
        if self.has_number != (self.total > 0):
            need = "needs a number of exemplars of 1 or more" if self.has_number else "takes no number of exemplars"
            raise EnergyAlignError(f"the memory {self.selection} {need}: for example random:2000, or none.")

    @classmethod
    def parse(cls, text: str, default_total: int) -> Self:
        """``random:2000``, or ``random`` for the number that belongs to the data set."""
        name, colon, number = text.partition(":")
        if colon and not re.fullmatch(r"[0-9]+", number):
            raise EnergyAlignError(f"the memory {text!r} has no number of exemplars after the colon: say random:2000.")
        if colon:
            return cls(name, int(number))
        return cls(name, default_total if name in ("random", "herding") else 0)

    @property
    def has_number(self) -> bool:
        """Whether there is a limit to it."""
        return self.selection in ("random", "herding")

    def quotas(self, counts: Ints) -> Ints:
        """How many images are kept of each old class, of which there are so many training images.

        The total is divided evenly and rounded down; what is left over goes to the classes that came first, one each.
        Quotas fall as classes come, never rise: shrinking keeps the first of an ordered list. A class with fewer images
        than its quota keeps all of them.
        """
        if self.selection == "all":
            return counts.copy()
        n_old = len(counts)
        if n_old == 0:
            return np.zeros(0, dtype=np.int64)
        each, left_over = divmod(self.total, n_old)
        quotas: Ints = np.minimum(counts, each + (np.arange(n_old) < left_over))
        return quotas

    def check(self, n_classes: int) -> None:
        """Refuse a memory that leaves one of so many classes without an exemplar."""
        if self.has_number and self.total < n_classes:
            raise EnergyAlignError(
                f"a memory of {self.total} exemplars is too small for {n_classes} classes: give at least one for each, "
                f"--memory {self.selection}:{n_classes} or more, or --memory none."
            )

    def __str__(self) -> str:
        return f"{self.selection}:{self.total}" if self.has_number else self.selection


@dataclass(frozen=True, eq=False)
class Memory:
    """The exemplars that are kept: indices of training images, best first, for each class seen so far.

    Attributes
    ----------
    exemplars : tuple of arrays
        To train on.
    held_out : tuple of arrays
        Never trained on, for the correctors that need such images; empty arrays if there are none.
    """

    exemplars: tuple[Ints, ...] = ()
    held_out: tuple[Ints, ...] = ()

    @property
    def counts(self) -> Ints:
        """Exemplars of each class."""
        return np.array([len(of_class) for of_class in self.exemplars], dtype=np.int64)

    @property
    def indices(self) -> Ints:
        """All exemplars, class by class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self.exemplars])

    @property
    def held_out_indices(self) -> Ints:
        """All that are held out, class by class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self.held_out])

    def after(self, new: Memory, plan: MemoryPlan, part_held_out: float) -> Memory:
        """What is kept when these new classes have become old: the first of each list, as far as the quotas go."""
        exemplars, held_out = self.exemplars + new.exemplars, self.held_out + new.held_out
        n_held = n_held_out(plan, len(exemplars), part_held_out)
        available = np.array([len(of_class) for of_class in exemplars], dtype=np.int64)
        quotas = plan.quotas(available + n_held) - n_held
        return Memory(
            tuple(of_class[:quota] for of_class, quota in zip(exemplars, quotas, strict=True)),
            tuple(of_class[:n_held] for of_class in held_out),
        )

    def to_json(self) -> dict[str, Any]:
        """Lists of numbers."""
        return {
            "exemplars": [of_class.tolist() for of_class in self.exemplars],
            "held_out": [of_class.tolist() for of_class in self.held_out],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        lists = (value["exemplars"], value["held_out"])
        exemplars, held_out = (tuple(np.array(one, dtype=np.int64) for one in of_kind) for of_kind in lists)
        return cls(exemplars, held_out)


def n_held_out(plan: MemoryPlan, n_old: int, part: float) -> int:
    """How many of the exemplars of each old class are never trained on: this part of them, at least one.

    Raises
    ------
    EnergyAlignError
        If none would be left to train on.
    """
    if part == 0:
        return 0
    if not plan.has_number:
        raise EnergyAlignError(
            f"some exemplars are to be held out from training, and the memory {plan} has no number of them: give one, "
            "for example --memory herding."
        )
    each = plan.total // n_old
    if each < 2:
        raise EnergyAlignError(
            f"the memory {plan} has fewer than two exemplars for each of {n_old} old classes, but one of them is to be "
            f"held out: give at least {plan.selection}:{2 * n_old}."
        )
    return max(1, int(part * each))


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


def herding_order(features: Floats, n_chosen: int) -> Ints:
    """Numbers of the images of one class in the order chosen: any beginning of it is a good small set.

    With φ the features, each row of length 1, and μ their mean, the k-th image is the one that brings the mean of the
    chosen closest to the mean of all::

        x_k = argmin over x not chosen yet of || μ - (φ(x_1) + ... + φ(x_(k-1)) + φ(x)) / k ||

    This is the formula of the iCaRL paper. Its script maximises an inner product instead and throws away repeated
    choices; BiC does not normalise the features. μ is not made of length 1 again. Rows of zeros stay zeros, and of
    equally good images the one with the smaller number is chosen.

    Parameters
    ----------
    features : array (n_images, n_features)
    n_chosen : int
        All images are put in order if it is more than there are.

    References
    ----------
    Rebuffi, Kolesnikov, Sperl, Lampert (2017), iCaRL: Incremental Classifier and Representation Learning.
    Welling (2009), Herding Dynamical Weights to Learn.

    Examples
    --------
    >>> herding_order(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]), 2).tolist()
    [2, 0]
    """
    phi = np.asarray(features, dtype=np.float64)
    if phi.ndim != 2 or not len(phi):
        raise EnergyAlignError(
            f"features must be an array (n_images, n_features) with an image at least, not of shape {phi.shape}."
        )
    if not np.isfinite(phi).all():
        row = int(np.nonzero(~np.isfinite(phi).all(axis=1))[0][0])
        raise EnergyAlignError(f"features of image {row} are not finite: the network has diverged, train it anew.")
    lengths = np.linalg.norm(phi, axis=1, keepdims=True)
    phi = phi / np.where(lengths > 0.0, lengths, 1.0)
    mean = phi.mean(axis=0)

    chosen: list[int] = []
    free = np.ones(len(phi), dtype=bool)
    total = np.zeros_like(mean)
    for k in range(1, min(n_chosen, len(phi)) + 1):
        # k times the distance, squared: the same argmin. Not by a matrix product, in which equal rows may differ.
        distances = np.square((k * mean - total) - phi).sum(axis=1)
        best = int(np.argmin(np.where(free, distances, np.inf)))
        chosen.append(best)
        free[best] = False
        total += phi[best]
    return np.array(chosen, dtype=np.int64)
