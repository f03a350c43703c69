"""Streaming, mergeable log-sum-exp over samples, per class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np

from energyalign.core._engine.compiled import ONE_PASS, worthwhile
from energyalign.core._engine.exponential_sums import SumOfExponentials
from energyalign.core._engine.parts import NUMBERS_PER_PART, Block
from energyalign.core._engine.threads import Threads
from energyalign.core.arrays import Array, Bools, Floats, as_logits, refuse_bad_value, row_pieces
from energyalign.core.checks import check_per_sample
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError


@dataclass(frozen=True, eq=False)
class Counted:
    """Logits of some samples, with what each of them stands for and how often it was seen."""

    logits: Array
    weights: Floats
    repeats: Floats
    first_row: int

    def cut(self, max_rows: int) -> Iterator[Counted]:
        """The same samples, at most so many at a time."""
        for start, logits in row_pieces(self.logits, max_rows):
            rows = slice(start, start + logits.shape[0])
            yield Counted(logits, self.weights[rows], self.repeats[rows], self.first_row + start)


class FreeEnergy:
    r"""Negative free energy of every class, estimated from logits that arrive in blocks.

    For class :math:`k` and samples :math:`x_s` the negative free energy of the paper's equation (11) is

    .. math:: -E(k) = \log \sum_s w_s\, e^{f(x_s)[k]}

    with weights :math:`w_s = 1` unless given. The state is a few numbers per class however many samples
    come, and `merge` is associative and commutative, so that shards, processes and devices are one
    mechanism. Exponentials have the precision of the logits, at least float32, and sums of them that of float64;
    where these would not fit they are relative to the largest logit, so that any magnitude will do. ``-inf`` marks
    a class that a sample cannot be; it adds nothing. A class that is ``-inf`` everywhere has value ``-inf`` and
    no effective samples.

    Parameters
    ----------
    n_classes : int, optional
        Taken from the first block if not given.

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
        self._numbers = 0  # in all updates
        if n_classes is not None:
            self._allocate(n_classes)

    def _allocate(self, n_classes: int) -> None:
        if n_classes < 2:
            raise EnergyAlignError(f"n_classes is {n_classes}; at least 2 are needed.")
        self._n_classes = n_classes
        self._peak: Floats = np.full(n_classes, -np.inf)  # max f, or 0
        self._first: Floats = np.zeros(n_classes)  # Σ w e^(f - peak)
        self._cross: Floats = np.zeros(n_classes)  # Σ w² e^(f - peak)
        self._second: Floats = np.zeros(n_classes)  # Σ w² e^2(f - peak)

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
            Any array-API namespace; the block is reduced where it lives and only results per class leave it.
        weights : array of shape (n_samples,), optional
            How much each sample stands for: an exact alternative to drawing it that many times. Weighting
            adds no information, so one sample of weight 100 counts as one effective sample.
        repeats : array of shape (n_samples,), optional
            How many times each sample was really observed: the same as giving it that many times.
        """
        block = as_logits(logits, self._n_classes)
        weight = check_per_sample("weights", weights, block.shape[0])
        repeat = check_per_sample("repeats", repeats, block.shape[0])
        whole = Counted(block, weight, repeat, first_row=0)
        numbers = self._numbers + block.shape[0] * block.shape[1]
        # Nothing of a block with a bad value is kept: it is merged only once all of it was read.
        self.merge(_energy_of(whole, worthwhile(numbers, ONE_PASS)))
        self._numbers = numbers
        return self

    def add(self, rows: Counted, sum_of: SumOfExponentials) -> None:
        """Add checked samples, summed in this way."""
        for piece in rows.cut(sum_of.rows(rows.logits)):
            # In float32, squares of weights far from 1 are 0 or infinite. Powers of 2 cost no bit.
            unit, times = _power_of_2(piece.weights), _power_of_2(piece.repeats)
            each = piece.weights / unit
            weights = each * (piece.repeats / times)
            squares = weights if np.all(each == 1.0) else each * weights
            found = FreeEnergy(self.n_classes)
            found._peak, first, cross, second = sum_of(piece.logits, weights, squares, first_row=piece.first_row)
            by_weight, by_square = unit * times, unit**2 * times
            found._first, found._cross, found._second = first * by_weight, cross * by_square, second * by_square
            found.n_samples = float(piece.repeats.sum())
            found._weight = float(weights.sum()) * by_weight
            found._weight_square = float(squares.sum()) * by_square
            self.merge(found)

    def merge(self, other: FreeEnergy) -> Self:
        """Add all that `other` has seen. Exact: the order of updates and merges does not matter."""
        if other._n_classes is None:
            return self
        if self._n_classes is None:
            self._allocate(other.n_classes)
        if self.n_classes != other.n_classes:
            raise EnergyAlignError(
                f"cannot merge energies of {other.n_classes} classes into those of {self.n_classes}."
            )
        if not np.array_equal(self._peak, other._peak):  # mostly they are 0 in both
            peak = np.maximum(self._peak, other._peak)
            self._lift(peak)
            other = copy(other)
            other._lift(peak)
        self._first = self._first + other._first
        self._cross = self._cross + other._cross
        self._second = self._second + other._second
        self.n_samples += other.n_samples
        self._weight += other._weight
        self._weight_square += other._weight_square
        return self

    def _lift(self, peak: Floats) -> None:
        """Express the sums relative to a peak that is as high or higher."""
        scale = np.exp(np.where(np.isneginf(self._peak), -np.inf, self._peak - np.where(np.isneginf(peak), 0, peak)))
        self._first = self._first * scale
        self._cross = self._cross * scale
        self._second = self._second * scale**2
        self._peak = peak

    @property
    def values(self) -> Floats:
        """Negative free energies: log Σ w e^f, per class."""
        self._refuse_empty()
        with np.errstate(divide="ignore"):
            return self._peak + np.log(self._first)

    @property
    def effective_samples(self) -> Floats:
        """How many equal samples would carry as much as these do, per class: (Σ w e^f)² / Σ w² e^2f."""
        self._refuse_empty()
        seen = self._second > 0
        return np.divide(self._first**2, self._second, out=np.zeros(self.n_classes), where=seen)

    @property
    def standard_errors(self) -> Floats:
        """Standard error of each value, by the delta method: √(1/ESS - 1/S) for samples of equal weight."""
        inverse = self._inverse_effective_samples()
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = np.where(self._first > 0, self._cross / (self._weight * self._first), 0.0)
        variance = inverse - 2.0 * cross + self._weight_square / self._weight**2
        return np.sqrt(np.maximum(variance, 0.0))

    def shift_standard_errors(self, clusters: Clusters, among: Bools | None = None) -> Floats:
        r"""Standard error of the shift of each cluster against the anchor cluster; 0 for the anchor itself.

        The shift is a difference of means of values over two clusters, so that what all classes have in
        common cancels and :math:`\sum_k c_k^2 / ESS_k` remains, :math:`c` being the coefficients of the
        difference. This leaves out products between classes, which would need a state of classes x classes.
        It is exact when no sample carries two classes at once. Where samples do, it is too large between a
        class and the anchor, and too small between classes of one cluster whose logits go together.

        Only the classes `among` (all, if not given) enter the means; those that are masked never do.
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
                "no samples were given, or all of weight zero: a free energy needs at least one row of logits."
            )


def _power_of_2(values: Floats) -> float:
    """The largest power of 2 that is not above the largest value; 1 if all are 0."""
    largest = float(values.max(initial=0.0))
    return math.ldexp(0.5, math.frexp(largest)[1]) if largest > 0 else 1.0


def _energy_of(rows: Counted, compiled: bool) -> FreeEnergy:
    """Of all rows, in threads if they are many."""
    n_classes = rows.logits.shape[1]

    def energy(part: Counted) -> FreeEnergy:
        found = FreeEnergy(n_classes)
        found.add(part, SumOfExponentials(compiled=compiled))
        return found

    if not isinstance(rows.logits, np.ndarray) or rows.logits.size <= NUMBERS_PER_PART:
        return energy(rows)
    total = FreeEnergy(n_classes)
    with Threads() as threads:
        for found in threads.map_all(energy, list(rows.cut(max(1, NUMBERS_PER_PART // n_classes)))):
            total.merge(found)
    return total


def energy_of_blocks(n_classes: int, compiled: bool, blocks: Iterable[Block]) -> FreeEnergy:
    """Add up the energies of blocks of evidence, in turn."""
    energy, sum_of = FreeEnergy(n_classes), SumOfExponentials(compiled=compiled)
    for block in blocks:
        try:
            energy.add(Counted(block.logits, block.weights, block.repeats, first_row=0), sum_of)
        except EnergyAlignError:
            refuse_bad_value(block.logits, block.samples)  # by its number in the evidence, not in the block
            raise
    return energy
