"""Exponentials of small evidence, kept so that posteriors under other biases need no new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from energyalign.core._engine.parts import Sums
from energyalign.core.arrays import Array, Floats, like, to_numpy

# By how much biases may move before what underflowed at the origin could matter.
_MAX_MOVE = 200.0


class ExponentialBlock(NamedTuple):
    """Some samples: exponentials relative to the largest of the sample, its exponent, and the samples' shares."""

    values: Array  # where the logits are: (n_samples, n_clusters)
    peaks: Floats
    shares: Floats


class ExponentialBlocks(list[ExponentialBlock]):
    """All samples, gathered in a pass over the evidence."""

    def merge(self, other: Self) -> None:
        """Append the blocks of `other`."""
        self.extend(other)


@dataclass(frozen=True, eq=False)
class KeptExponentials:
    r"""Exponentials :math:`e^{(f + b_0) / T - c}` per sample and cluster, c being the largest exponent of the sample.

    Other biases :math:`b` multiply the columns by :math:`e^{(b - b_0) / T}`: a pass is two products with a vector.
    `origin` are the biases :math:`b_0`, one per cluster.
    """

    blocks: ExponentialBlocks
    origin: Floats
    temperature: float

    def serves(self, biases: Floats) -> bool:
        """Whether nothing that underflowed at the origin matters at these biases."""
        return bool(np.max(np.abs(biases - self.origin)) <= _MAX_MOVE * self.temperature)

    def moments(self, biases: Floats, *, curvature: bool) -> Sums:
        """Sums for the log-partition, the mass and, if asked for, the products p pᵀ."""
        size, factors = len(biases), self._factors(biases)
        sums = Sums((), (size,), *([(size, size)] if curvature else []))
        for values, peaks, shares in self.blocks:
            totals = to_numpy(values @ like(factors, values))
            mass = to_numpy(like(shares / totals, values) @ values) * factors
            terms = (float(shares @ (peaks + np.log(totals))), mass)
            if curvature:
                scaled = values * like(np.sqrt(shares) / totals, values)[:, None]
                scaled *= like(factors, values)
                sums.add(*terms, to_numpy(scaled.T @ scaled))  # a product with itself: half the work of another
            else:
                sums.add(*terms)
        return sums

    def products_times(self, biases: Floats, vector: Floats) -> Floats:
        """The products p pᵀ times a vector, without the matrix."""
        factors = self._factors(biases)
        result = np.zeros(len(biases))
        for values, _, shares in self.blocks:
            totals, along = (to_numpy(values @ like(by, values)) for by in (factors, factors * vector))
            result += to_numpy(like(shares * along / totals**2, values) @ values)
        return result * factors

    def _factors(self, biases: Floats) -> Floats:
        return np.asarray(np.exp((biases - self.origin) / self.temperature))
