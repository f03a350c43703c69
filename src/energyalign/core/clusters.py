"""Which classes share a shift: per class, natural breaks of the counts, old and new, or as the user says."""

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
    """A partition of the classes, with the cluster that keeps its logits as they are.

    Attributes
    ----------
    assignment : tuple of int
        The cluster of each class, numbered from 0 without gaps.
    anchor : int
        The cluster whose shift is 0. A convention: another anchor adds one constant to all logits, which
        changes neither predictions nor probabilities.
    name : str
        How the partition was made, for people: ``per-class``, ``jenks-8``, ``old-new``, ``given``.
    """

    assignment: tuple[int, ...]
    anchor: int = 0
    name: str = "given"

    def __post_init__(self) -> None:
        used = set(self.assignment)
        if len(self.assignment) < 2 or used != set(range(len(used))):
            raise EnergyAlignError(
                "clusters must give every class (at least 2) a cluster numbered 0, 1, 2, ... without gaps."
            )
        if self.anchor not in used:
            raise EnergyAlignError(f"anchor cluster {self.anchor} is not one of the {len(used)} clusters.")

    @classmethod
    def per_class(cls, n_classes: int, counts: npt.ArrayLike | None = None) -> Self:
        """Each class its own cluster; the anchor is the rarest class, or class 0 without counts."""
        anchor = 0 if counts is None else int(np.argmin(np.asarray(counts)))
        return cls(tuple(range(n_classes)), anchor, "per-class")

    @classmethod
    def jenks(cls, counts: npt.ArrayLike, n_clusters: int) -> Self:
        """Natural breaks of the training counts, as in the paper. The anchor has the smallest counts."""
        values = np.asarray(counts, dtype=np.float64)
        distinct = len(np.unique(values))
        if not 1 <= n_clusters <= distinct:
            raise EnergyAlignError(
                f"cannot form {n_clusters} clusters: the training counts have {distinct} distinct values. "
                f"Choose between 1 and {distinct}."
            )
        breaks = natural_breaks(values, n_clusters)
        return cls(tuple(np.searchsorted(breaks, values, side="left").tolist()), 0, f"jenks-{n_clusters}")

    @classmethod
    def old_new(cls, old: Sequence[int], n_classes: int) -> Self:
        """Old classes, the anchor, and new ones: the two clusters of class-incremental learning."""
        is_old = set(old)
        if not is_old or not is_old < set(range(n_classes)):
            raise EnergyAlignError(
                f"old classes must be some, not all, of 0..{n_classes - 1}; got {len(is_old)} of them."
            )
        return cls(tuple(0 if k in is_old else 1 for k in range(n_classes)), 0, "old-new")

    @classmethod
    def given(cls, assignment: Sequence[int], counts: npt.ArrayLike | None = None) -> Self:
        """A partition of the user's own; the anchor has the smallest mean count, or is cluster 0."""
        try:
            partition = cls(tuple(operator.index(cluster) for cluster in assignment))
        except TypeError as error:
            raise EnergyAlignError("the cluster of each class must be a whole number.") from error
        if counts is None:
            return partition
        values = np.asarray(counts, dtype=np.float64)
        if values.shape != (partition.n_classes,):
            raise EnergyAlignError(
                f"clusters were given for {partition.n_classes} classes, training counts for {values.size}."
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
        """Number of classes of each cluster, counting only those `among`."""
        return self.sums(np.ones(self.n_classes) if among is None else among.astype(np.float64))
