"""The memory of old classes: how many exemplars to keep, and which."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError

SELECTIONS: dict[str, str] = {
    "none": "no exemplars",
    "random": "drawn at random, as in the paper",
    "herding": "images whose mean feature is nearest to the class mean",
    "all": "all images, for joint training, the upper bound",
}


@dataclass(frozen=True)
class MemoryPlan:
    """The total number of exemplars of all old classes, and how they are chosen.

    Attributes
    ----------
    selection : str
        A name of `SELECTIONS`.
    total : int, default 0
        Exemplars of all old classes together; 0 for ``none`` and ``all``, which take no number.
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
        """Parse ``random:2000``, or ``random`` for the default number of the data set."""
        name, colon, number = text.partition(":")
        if colon and not re.fullmatch(r"[0-9]+", number):
            raise EnergyAlignError(f"expected a memory such as random:2000, got {text!r}: give a whole number.")
        if colon:
            return cls(name, int(number))
        return cls(name, default_total if name in ("random", "herding") else 0)

    @property
    def has_number(self) -> bool:
        """Whether the number of exemplars is limited."""
        return self.selection in ("random", "herding")

    def quotas(self, counts: Ints) -> Ints:
        """Return how many images to keep of each old class, given their training counts.

        The total is divided evenly and rounded down; the remainder goes to the classes that came first, one each.
        Quotas never rise as classes come, so shrinking keeps a prefix of each list. A class with fewer images than its
        quota keeps all of them.
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
        """Raise an error if the memory is too small for one exemplar of each class."""
        if self.has_number and self.total < n_classes:
            raise EnergyAlignError(
                f"a memory of {self.total} exemplars is too small for {n_classes} classes: give at least one for each, "
                f"--memory {self.selection}:{n_classes} or more, or --memory none."
            )

    def __str__(self) -> str:
        return f"{self.selection}:{self.total}" if self.has_number else self.selection


@dataclass(frozen=True, eq=False)
class Memory:
    """The exemplars of each class seen so far, as indices of training images, best first.

    Attributes
    ----------
    exemplars : tuple of arrays
        Exemplars to train on.
    held_out : tuple of arrays
        Exemplars held out from training, for correctors that need them; empty arrays if there are none.
    """

    exemplars: tuple[Ints, ...] = ()
    held_out: tuple[Ints, ...] = ()

    @property
    def counts(self) -> Ints:
        """Number of exemplars of each class."""
        return np.array([len(of_class) for of_class in self.exemplars], dtype=np.int64)

    @property
    def indices(self) -> Ints:
        """All exemplars, class by class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self.exemplars])

    @property
    def held_out_indices(self) -> Ints:
        """All held-out images, class by class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self.held_out])

    def after(self, new: Memory, plan: MemoryPlan, part_held_out: float) -> Memory:
        """Return the memory after these new classes have become old: the first images of each list, up to its quota."""
        exemplars, held_out = self.exemplars + new.exemplars, self.held_out + new.held_out
        n_held = n_held_out(plan, len(exemplars), part_held_out)
        available = np.array([len(of_class) for of_class in exemplars], dtype=np.int64)
        quotas = plan.quotas(available + n_held) - n_held
        return Memory(
            tuple(of_class[:quota] for of_class, quota in zip(exemplars, quotas, strict=True)),
            tuple(of_class[:n_held] for of_class in held_out),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "exemplars": [of_class.tolist() for of_class in self.exemplars],
            "held_out": [of_class.tolist() for of_class in self.held_out],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Restore what `to_json` returned."""
        lists = (value["exemplars"], value["held_out"])
        exemplars, held_out = (tuple(np.array(one, dtype=np.int64) for one in of_kind) for of_kind in lists)
        return cls(exemplars, held_out)


def n_held_out(plan: MemoryPlan, n_old: int, part: float) -> int:
    """Return how many exemplars of each old class to hold out: this share of them, at least one.

    Raises an error if no exemplar would be left to train on.
    """
    if part == 0:
        return 0
    if not plan.has_number:
        raise EnergyAlignError(
            f"a corrector needs exemplars held out from training, and the memory {plan} cannot hold any out: choose "
            "another, for example --memory herding."
        )
    each = plan.total // n_old
    if each < 2:
        raise EnergyAlignError(
            f"the memory {plan} has fewer than two exemplars for each of {n_old} old classes, and one of them is held "
            f"out: give at least {plan.selection}:{2 * n_old}."
        )
    return max(1, int(part * each))


def random_lists(indices: Ints, labels: Ints, classes: range, seed: int) -> tuple[Ints, ...]:
    """Shuffle the images of each class, so that the first m are a random sample for every m."""
    rng = np.random.default_rng(seed)
    return tuple(rng.permutation(indices[labels == k]) for k in classes)


def herded_lists(
    indices: Ints, labels: Ints, classes: range, features: npt.NDArray[np.float32], n_chosen: Ints
) -> tuple[Ints, ...]:
    """Choose `n_chosen` images of each class by herding, best first."""
    lists = []
    for k, number in zip(classes, n_chosen, strict=True):
        members = np.flatnonzero(labels == k)
        lists.append(indices[members[herding_order(features[members].astype(np.float64), int(number))]])
    return tuple(lists)


def herding_order(features: Floats, n_chosen: int) -> Ints:
    """Order the images of one class so that every prefix represents the class well; return their indices.

    With φ the features, normalised to length 1, and μ their mean, the k-th image is the one that brings the mean of the
    chosen images closest to the mean of all::

        x_k = argmin over x not chosen yet of || μ - (φ(x_1) + ... + φ(x_(k-1)) + φ(x)) / k ||

    This is the formula of the iCaRL paper. Its script maximises an inner product instead and discards repeated choices;
    BiC does not normalise the features. μ is not normalised again. Rows of zeros stay zeros, and ties go to the smaller
    index.

    Parameters
    ----------
    features : array (n_images, n_features)
    n_chosen : int
        Number of images to choose; all, if there are fewer.

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
            f"features must have shape (n_images, n_features) with at least one image, got {phi.shape}."
        )
    if not np.isfinite(phi).all():
        row = int(np.nonzero(~np.isfinite(phi).all(axis=1))[0][0])
        raise EnergyAlignError(
            f"features of image {row} are not finite: the network diverged. Lower the learning rate."
        )
    lengths = np.linalg.norm(phi, axis=1, keepdims=True)
    phi = phi / np.where(lengths > 0.0, lengths, 1.0)
    mean = phi.mean(axis=0)

    chosen: list[int] = []
    free = np.ones(len(phi), dtype=bool)
    total = np.zeros_like(mean)
    for k in range(1, min(n_chosen, len(phi)) + 1):
        # k times the distance, squared, has the same argmin. In a matrix product equal rows could differ.
        distances = np.square((k * mean - total) - phi).sum(axis=1)
        best = int(np.argmin(np.where(free, distances, np.inf)))
        chosen.append(best)
        free[best] = False
        total += phi[best]
    return np.array(chosen, dtype=np.int64)
