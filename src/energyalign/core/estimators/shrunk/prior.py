"""Prior of the biases of `shrunk`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from energyalign.core.arrays import Floats

_SLOPE_VARIANCE = 1.0  # prior of tau: N(1, 1)


@dataclass(frozen=True, eq=False)
class BiasPrior:
    """Normal prior N(mean, σ² I + v d dᵀ) of the biases b = -tau d + u, with the centred log prior d.

    `variance` is σ², the variance of u. v is the variance of tau; with a `direction` d of None, tau is fixed.
    """

    mean: Floats
    direction: Floats | None
    variance: float

    @property
    def _share(self) -> float:
        """Share of a deviation along d that tau explains, divided by dᵀd."""
        if self.direction is None:
            return 0.0
        return _SLOPE_VARIANCE / (self.variance + _SLOPE_VARIANCE * float(self.direction @ self.direction))

    def deviations(self, biases: Floats) -> Floats:
        """Return the expected u given the biases."""
        away = biases - self.mean
        return away if self.direction is None else away - self._share * float(self.direction @ away) * self.direction

    def slope(self, biases: Floats) -> float:
        """Return the expected tau given the biases."""
        if self.direction is None:
            return 0.0
        return 1.0 - self._share * float(self.direction @ (biases - self.mean))

    def slope_error(self, covariance: Floats) -> float:
        """Return the standard error of tau, from the covariance matrix of the biases or its diagonal."""
        if self.direction is None:
            return 0.0
        d, share = self.direction, self._share
        spread = d @ covariance @ d if covariance.ndim == 2 else d**2 @ covariance
        return float(np.sqrt(share**2 * spread + share * self.variance))

    def times(self, vector: Floats) -> Floats:
        """Multiply a vector by the precision matrix."""
        along = 0.0 if self.direction is None else self._share * float(self.direction @ vector) * self.direction
        return np.asarray((vector - along) / self.variance)

    @property
    def precision(self) -> Floats:
        """Precision matrix: the inverse of the covariance."""
        outer = 0.0 if self.direction is None else self._share * np.outer(self.direction, self.direction)
        return np.asarray((np.eye(len(self.mean)) - outer) / self.variance)

    def solve(self, diagonal: Floats, vector: Floats) -> Floats:
        """Multiply a vector by (diagonal + precision)⁻¹, with the Sherman-Morrison formula."""
        own = diagonal + 1.0 / self.variance
        if self.direction is None:
            return np.asarray(vector / own)
        weight = self._share / self.variance
        scaled = self.direction / own
        rest = weight * float(scaled @ vector) / (1.0 - weight * float(self.direction @ scaled))
        return np.asarray(vector / own + rest * scaled)

    def trace_of_deviations(self, covariance: Floats) -> float:
        """Return the trace of the posterior covariance of u, given the covariance of the biases or its diagonal."""
        diagonal = np.diag(covariance) if covariance.ndim == 2 else covariance
        if self.direction is None:
            return float(diagonal.sum())
        d, share = self.direction, self._share
        moved = covariance @ d if covariance.ndim == 2 else d * diagonal
        squared = float(d @ d)
        trace = float(diagonal.sum()) - 2 * share * float(d @ moved) + share**2 * squared * float(d @ moved)
        return trace + squared * self.variance * share
