"""Free energies of the classes: a streaming, mergeable log-sum-exp over samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from itertools import chain
from typing import Self

import numpy as np

from energyalign.core._engine.compiled import ONE_PASS, worthwhile
from energyalign.core._engine.exponential_sums import SumOfExponentials
from energyalign.core._engine.parts import NUMBERS_PER_PART, Block
from energyalign.core._engine.threads import Threads
from energyalign.core.arrays import Array, Bools, Floats, Ints, as_logits, take_rows
from energyalign.core.checks import check_per_sample
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError

_SIMILAR = 30  # bits: weights whose ratio is at most 2^30 are summed together


class FreeEnergy:
    r"""Negative free energy of every class, estimated from logits that arrive in blocks.

    For class :math:`k` and samples :math:`x_s` the negative free energy of the paper's equation (11) is

    .. math:: -E(k) = \log \sum_s w_s\, e^{f(x_s)[k]}

    with weights :math:`w_s`, 1 by default. The state is a few numbers per class for any number of samples, and
    `merge` is associative and commutative, so that shards, processes and devices can be combined. Exponentials are
    computed in the precision of the logits, at least float32, and summed in float64. If they would overflow or
    underflow, they are computed relative to the largest logit. A logit of ``-inf`` adds nothing: it excludes the class
    for that sample. A class that is ``-inf`` for all samples has value ``-inf`` and no effective samples.

    Parameters
    ----------
    n_classes : int, optional
        By default taken from the first block.

    Examples
    --------
    >>> import numpy as np
    >>> energy = FreeEnergy().update(np.log([[1.0, 2.0], [3.0, 2.0]]))
    >>> np.exp(energy.values).round(6).tolist()
    [4.0, 4.0]
    >>> energy.effective_samples.round(6).tolist()
    [1.6, 2.0]
    """

    def __init__(self, n_classes: int | None = None) -> None:
        self.n_samples = 0.0
        self._weight = 0.0  # Σ w
        self._weight_square = 0.0  # Σ w²
        self._n_classes = n_classes
        self._numbers = 0  # size of all updates
        if n_classes is not None:
            self._allocate(n_classes)

    def _allocate(self, n_classes: int) -> None:
        if n_classes < 2:
            raise EnergyAlignError(f"n_classes must be >= 2, got {n_classes}.")
        self._n_classes = n_classes
        self._peak: Floats = np.full(n_classes, -np.inf)  # max f, or 0
        self._sums: Floats = np.zeros((3, n_classes))  # sums of w e^(f - peak), w² e^(f - peak) and w² e^2(f - peak)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        if self._n_classes is None:
            raise EnergyAlignError("this FreeEnergy has seen no logits yet: call update(logits) first.")
        return self._n_classes

    def update(self, logits: Array, *, weights: Array | None = None, repeats: Array | None = None) -> Self:
        """Add a block of samples.

        Parameters
        ----------
        logits : array of shape (n_samples, n_classes)
            From any array-API namespace; reduced on its own device.
        weights : array of shape (n_samples,), optional
            Weight of each sample in the sum, default=1. A weight adds no information: one sample of weight 100 counts
            as one effective sample.
        repeats : array of shape (n_samples,), optional
            How often each sample was observed, default=1: the same as passing it that many times.
        """
        block = as_logits(logits, self._n_classes)
        weight = check_per_sample("weights", weights, block.shape[0])
        repeat = check_per_sample("repeats", repeats, block.shape[0])
        whole = Block(block, None, weight, repeat, np.arange(block.shape[0]))
        numbers = self._numbers + block.shape[0] * block.shape[1]
        # Merge after reading the whole block, so that a block with a bad value changes nothing.
        self.merge(_energy_of(whole, worthwhile(numbers, ONE_PASS)))
        self._numbers = numbers
        return self

    def add(self, block: Block, sum_of: SumOfExponentials) -> None:
        """Add validated samples, summed by `sum_of`."""
        for piece in chain.from_iterable(map(_of_similar_weight, block.split(sum_of.rows(block.logits)))):
            # In float32, squares of weights far from 1 overflow or underflow. Scaling by powers of 2 is exact.
            unit, times = _power_of_2(piece.weights), _power_of_2(piece.repeats)
            each = piece.weights / unit
            weights = each * (piece.repeats / times)
            squares = weights if np.all(each == 1.0) else each * weights
            energy = FreeEnergy(self.n_classes)
            energy._peak, sums = sum_of(piece.logits, weights, squares, piece.samples)
            by_weight, by_square = unit * times, unit**2 * times
            energy._sums = sums * np.array([[by_weight], [by_square], [by_square]])
            energy.n_samples = float(piece.repeats.sum())
            energy._weight = float(weights.sum()) * by_weight
            energy._weight_square = float(squares.sum()) * by_square
            self.merge(energy)

    def merge(self, other: FreeEnergy) -> Self:
        """Add the samples of `other`. The order of updates and merges does not matter."""
        if other._n_classes is None:
            return self
        if self._n_classes is None:
            self._allocate(other.n_classes)
        if self.n_classes != other.n_classes:
            raise EnergyAlignError(
                f"cannot merge energies of {other.n_classes} classes into energies of {self.n_classes} classes."
            )
        if not np.array_equal(self._peak, other._peak):  # usually both are 0
            peak = np.maximum(self._peak, other._peak)
            self._lift(peak)
            other = copy(other)
            other._lift(peak)
        self._sums = self._sums + other._sums
        self.n_samples += other.n_samples
        self._weight += other._weight
        self._weight_square += other._weight_square
        return self

    def _lift(self, peak: Floats) -> None:
        """Rescale the sums to a peak that is as high or higher."""
        scale = np.exp(np.where(np.isneginf(self._peak), -np.inf, self._peak - np.where(np.isneginf(peak), 0, peak)))
        self._sums = self._sums * np.stack([scale, scale, scale**2])
        self._peak = peak

    @property
    def values(self) -> Floats:
        """Negative free energies: log Σ w e^f, per class."""
        self._refuse_empty()
        with np.errstate(divide="ignore"):
            return np.asarray(self._peak + np.log(self._sums[0]))

    @property
    def effective_samples(self) -> Floats:
        """Effective sample size of each class: (Σ w e^f)² / Σ w² e^2f."""
        self._refuse_empty()
        first, _, second = self._sums
        return np.asarray(np.divide(first**2, second, out=np.zeros(self.n_classes), where=second > 0))

    @property
    def standard_errors(self) -> Floats:
        """Standard error of each value, by the delta method: √(1/ESS - 1/S) for samples of equal weight."""
        inverse = self._inverse_effective_samples()
        first, cross, _ = self._sums
        with np.errstate(divide="ignore", invalid="ignore"):
            covariance = np.where(first > 0, cross / (self._weight * first), 0.0)
        variance = inverse - 2.0 * covariance + self._weight_square / self._weight**2
        return np.sqrt(np.maximum(variance, 0.0))

    def shift_standard_errors(self, clusters: Clusters, among: Bools | None = None) -> Floats:
        r"""Return the standard error of each cluster's shift relative to the anchor; 0 for the anchor.

        The shift is a difference of means of values over two clusters. Terms that all classes share cancel, and
        :math:`\sum_k c_k^2 / ESS_k` remains, where :math:`c` are the coefficients of the difference. Covariances
        between classes are left out, since they would need a matrix of classes x classes: the result is exact if no
        sample contributes to two classes, too large between a class and the anchor if samples contribute to both, and
        too small between classes of one cluster whose logits are correlated.

        Only the classes `among` (default: all) enter the means; masked classes never do.
        """
        inverse = self._inverse_effective_samples()
        usable = np.isfinite(inverse) if among is None else np.isfinite(inverse) & among
        members = clusters.sizes(usable)
        sums = clusters.sums(np.where(usable, inverse, 0.0))
        variance = np.divide(sums, members**2, out=np.full(clusters.n_clusters, np.inf), where=members > 0)
        errors = np.sqrt(variance + variance[clusters.anchor])
        errors[clusters.anchor] = 0.0
        return np.asarray(errors)

    def _inverse_effective_samples(self) -> Floats:
        effective = self.effective_samples
        inverse = np.full(self.n_classes, np.inf)
        np.divide(1.0, effective, out=inverse, where=effective > 0)
        return inverse

    def _refuse_empty(self) -> None:
        if self._n_classes is None or self._weight == 0:
            raise EnergyAlignError(
                "a free energy needs at least one sample of positive weight: call update(logits) first."
            )


def _of_similar_weight(block: Block) -> Iterator[Block]:
    """Yield samples together whose weights and repeats are similar: squares of others would underflow in float32."""
    both = block.weights, block.repeats
    if all(map(_are_similar, both)):
        yield block
        return
    levels = np.stack([_levels(values) for values in both])
    for level in np.unique(levels, axis=1).T:
        rows = np.flatnonzero(np.all(level == levels.T, axis=1))
        yield Block(take_rows(block.logits, rows), None, block.weights[rows], block.repeats[rows], block.samples[rows])


def _are_similar(values: Floats) -> bool:
    """Return whether these values can be summed together; values of 0 fit anywhere."""
    return bool(values.min(initial=np.inf, where=values > 0) * 2.0**_SIMILAR >= values.max(initial=0.0))


def _levels(values: Floats) -> Ints:
    """Return a level for each value: 0 if all are similar, else their magnitude."""
    if _are_similar(values):
        return np.zeros(len(values), dtype=np.int64)
    positive = np.where(values > 0, values, values.max())
    return np.frexp(positive)[1].astype(np.int64) // _SIMILAR


def _power_of_2(values: Floats) -> float:
    """Return the largest power of 2 that is at most the largest value; 1 if all values are 0."""
    largest = float(values.max(initial=0.0))
    return math.ldexp(0.5, math.frexp(largest)[1]) if largest > 0 else 1.0


def _energy_of(block: Block, compiled: bool) -> FreeEnergy:
    """Compute the energies of one block, in threads if it is large."""
    n_classes = block.logits.shape[1]
    if not isinstance(block.logits, np.ndarray) or block.logits.size <= NUMBERS_PER_PART:
        return energy_of_blocks(n_classes, compiled, (block,))
    total = FreeEnergy(n_classes)
    pieces = list(block.split(max(1, NUMBERS_PER_PART // n_classes)))
    with Threads() as threads:
        for energy in threads.map_all(lambda piece: energy_of_blocks(n_classes, compiled, (piece,)), pieces):
            total.merge(energy)
    return total


def energy_of_blocks(n_classes: int, compiled: bool, blocks: Iterable[Block]) -> FreeEnergy:
    """Add up the energies of blocks of samples."""
    energy, sum_of = FreeEnergy(n_classes), SumOfExponentials(compiled=compiled)
    for block in blocks:
        energy.add(block, sum_of)
    return energy
