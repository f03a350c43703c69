"""Cached exponentials of small evidence, to compute posteriors for any biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from energyalign.core._engine.parts import Collected, Sums
from energyalign.core.arrays import Array, Floats, like, to_numpy

# How far biases may move before values that underflowed at the origin could matter.
_MAX_MOVE = 200.0


class ExponentialBlock(NamedTuple):
    """Exponentials of samples relative to their peaks (the largest exponents), and the shares of the samples."""

    values: Array  # shape (n_samples, n_clusters), on the device of the logits
    peaks: Floats
    shares: Floats


ExponentialBlocks: TypeAlias = Collected[ExponentialBlock]


@dataclass(frozen=True, eq=False)
class KeptExponentials:
    r"""Exponentials :math:`e^{(f + b_0) / T - c}` per sample and cluster, where c is the peak of the sample.

    Other biases :math:`b` multiply the columns by :math:`e^{(b - b_0) / T}`, so that a pass is two matrix-vector
    products. `origin` is :math:`b_0`, one bias per cluster.
    """

    blocks: ExponentialBlocks
    origin: Floats
    temperature: float

    def serves(self, biases: Floats) -> bool:
        """Return whether these biases are near enough that values that underflowed at the origin do not matter."""
        return bool(np.max(np.abs(biases - self.origin)) <= _MAX_MOVE * self.temperature)

    def moments(self, biases: Floats, *, curvature: bool) -> Sums:
        """Sum the log-partition, the mass and, with `curvature`, the products p pᵀ."""
        size, factors = len(biases), self._factors(biases)
        sums = Sums((), (size,), *([(size, size)] if curvature else []))
        for values, peaks, shares in self.blocks:
            totals = to_numpy(values @ like(factors, values))
            mass = to_numpy(like(shares / totals, values) @ values) * factors
            terms = (float(shares @ (peaks + np.log(totals))), mass)
            if curvature:
                scaled = values * like(np.sqrt(shares) / totals, values)[:, None]
                scaled *= like(factors, values)
                sums.add(*terms, to_numpy(scaled.T @ scaled))  # symmetric: half the work
            else:
                sums.add(*terms)
        return sums

    def products_times(self, biases: Floats, vector: Floats) -> Floats:
        """Multiply the sum of p pᵀ by a vector, without forming it."""
        factors = self._factors(biases)
        result = np.zeros(len(biases))
        for values, _, shares in self.blocks:
            totals, along = (to_numpy(values @ like(by, values)) for by in (factors, factors * vector))
            result += to_numpy(like(shares * along / totals**2, values) @ values)
        return result * factors

    def _factors(self, biases: Floats) -> Floats:
        return np.asarray(np.exp((biases - self.origin) / self.temperature))
