"""The mean posterior of a model over the evidence, as a function of biases shared by clusters of classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.biased_model import BiasedModel
from energyalign.core.clusters import Clusters
from energyalign.core.compiled import MANY_PASSES
from energyalign.core.evidence import Evidence


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted means over the evidence, at one vector of biases.

    Attributes
    ----------
    log_partition : float
        Mean of log Σ_k exp(f_k + b_k); its derivative by the biases is the mass.
    mass : array of shape (n_clusters,)
        Mean posterior of each cluster.
    curvature : array of shape (n_clusters, n_clusters), or None where it was not asked for
        Mean of diag(p) - p pᵀ: the derivative of the mass by the biases.
    """

    log_partition: float
    mass: Floats
    curvature: Floats | None


class MeanPosterior:
    """Passes over the evidence that add up posteriors of the model with one bias per cluster.

    Logits and biases are divided by the `temperature`.
    """

    def __init__(self, evidence: Evidence, clusters: Clusters, temperature: float = 1.0) -> None:
        self.evidence = evidence
        self.clusters = clusters
        self.temperature = temperature
        self._total = evidence.total_weight
        self._compiled = evidence.uses_compiled_loops(MANY_PASSES)

    def at(self, biases: Floats) -> BiasedModel:
        """The model with these biases, one per cluster."""
        return BiasedModel(biases, self.clusters.indices, self.temperature, self._total, self._compiled)

    def moments(self, biases: Floats, *, curvature: bool) -> Moments:
        """Mass and, if asked for, its derivative, in one pass."""
        fill = partial(self.at(biases).moments, curvature=curvature)
        log_partition, mass, *products = self.evidence.accumulate(fill).values
        return Moments(float(log_partition), mass, _less_products(mass, *products) if curvature else None)

    def curvature_times(self, biases: Floats, mass: Floats, vector: Floats) -> Floats:
        """The curvature at `biases` times a vector, without the matrix, in one pass."""
        (products,) = self.evidence.accumulate(partial(self.at(biases).products_times, vector=vector)).values
        return mass * vector - products

    def spread(self) -> float:
        """Mean distance of a logit from the log-partition of its sample, over samples and classes in play."""
        distance, weight = self.evidence.accumulate(self.at(np.zeros(self.clusters.n_clusters)).depths).values
        return float(distance / weight)

    def log_mass(self, biases: Floats) -> Floats:
        """Logarithm of the mass, exact also where the mass itself would underflow."""
        per_class = self.evidence.accumulate(self.at(biases).energies).values - np.log(self._total)
        peak = np.full(self.clusters.n_clusters, -np.inf)
        np.maximum.at(peak, self.clusters.indices, per_class)
        peak = np.where(np.isneginf(peak), 0.0, peak)
        with np.errstate(divide="ignore"):
            return peak + np.log(self.clusters.sums(np.exp(per_class - peak[self.clusters.indices])))


def _less_products(mass: Floats, products: Floats) -> Floats:
    """diag(mass) - products, in their place."""
    np.negative(products, out=products)
    products[np.diag_indices_from(products)] += mass
    return products
