"""Which classes share a shift: no classes, classes with similar counts, old and new classes, or a given partition."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.forks import cached_property
from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.natural_breaks import natural_breaks


@dataclass(frozen=True)
class Clusters:
    """A partition of the classes into clusters that share a shift.

    Attributes
    ----------
    assignment : tuple of int
        The cluster of each class, numbered from 0 without gaps.
    anchor : int
        The cluster whose shift is 0, default=0. A convention: another anchor adds one constant to all logits, which
        changes neither predictions nor probabilities.
    name : str
        How the partition was made: ``per-class``, ``jenks-8``, ``old-new`` or ``given`` (the default).
    """

    assignment: tuple[int, ...]
    anchor: int = 0
    name: str = "given"

    def __post_init__(self) -> None:
        used = set(self.assignment)
        if len(self.assignment) < 2 or used != set(range(len(used))):
            raise EnergyAlignError(
                "clusters must be numbered 0, 1, 2, ... without gaps, one for each of at least 2 classes."
            )
        if self.anchor not in used:
            raise EnergyAlignError(f"anchor must be in 0..{len(used) - 1} (the clusters), got {self.anchor}.")

    @classmethod
    def per_class(cls, n_classes: int, counts: npt.ArrayLike | None = None) -> Self:
        """Put each class into its own cluster; the anchor is the rarest class, or class 0 without counts."""
        anchor = 0 if counts is None else int(np.argmin(np.asarray(counts)))
        return cls(tuple(range(n_classes)), anchor, "per-class")

    @classmethod
    def jenks(cls, counts: npt.ArrayLike, n_clusters: int) -> Self:
        """Split classes at natural breaks of their counts, as in the paper; the rarest classes are the anchor."""
        values = np.asarray(counts, dtype=np.float64)
        distinct = len(np.unique(values))
        if not 1 <= n_clusters <= distinct:
            raise EnergyAlignError(
                f"the number of clusters must be in 1..{distinct} (distinct training counts), got {n_clusters}."
            )
        breaks = natural_breaks(values, n_clusters)
        return cls(tuple(np.searchsorted(breaks, values, side="left").tolist()), 0, f"jenks-{n_clusters}")

    @classmethod
    def old_new(cls, old: Sequence[int], n_classes: int) -> Self:
        """Split classes into old (the anchor) and new, for class-incremental learning."""
        is_old = set(old)
        if not is_old or not is_old < set(range(n_classes)):
            raise EnergyAlignError(
                f"old must contain some, but not all, of the classes 0..{n_classes - 1}, got {len(is_old)} classes."
            )
        return cls(tuple(0 if k in is_old else 1 for k in range(n_classes)), 0, "old-new")

    @classmethod
    def from_assignment(cls, assignment: Sequence[int], counts: npt.ArrayLike | None = None) -> Self:
        """Use this partition; the anchor is the cluster with the smallest mean count, or cluster 0 without counts."""
        try:
            partition = cls(tuple(operator.index(cluster) for cluster in assignment))
        except TypeError as error:
            raise EnergyAlignError("clusters must be integers, one per class.") from error
        if counts is None:
            return partition
        values = np.asarray(counts, dtype=np.float64)
        if values.shape != (partition.n_classes,):
            raise EnergyAlignError(
                f"clusters and training counts must have one entry per class, got {partition.n_classes} and "
                f"{values.size} entries."
            )
        return cls(partition.assignment, int(np.argmin(partition.sums(values) / partition.sizes())), "given")

    @property
    def n_classes(self) -> int:
        return len(self.assignment)

    @property
    def n_clusters(self) -> int:
        return max(self.assignment) + 1

    @cached_property
    def indices(self) -> Ints:
        """The assignment as an array."""
        return np.asarray(self.assignment, dtype=np.int64)

    def sums(self, per_class: npt.NDArray[np.floating]) -> Floats:
        """Sum over the classes of each cluster."""
        return np.bincount(self.indices, weights=per_class, minlength=self.n_clusters).astype(np.float64)

    def sizes(self, among: Bools | None = None) -> Floats:
        """Count the classes of each cluster; if `among` is given, only these classes."""
        return self.sums(np.ones(self.n_classes) if among is None else among.astype(np.float64))
