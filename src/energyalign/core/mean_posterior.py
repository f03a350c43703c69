"""The mean posterior of a model over the evidence, as a function of biases shared by clusters of classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from energyalign.core.arrays import (
    Array,
    Floats,
    like,
    namespace,
    refuse_bad_value,
    to_numpy,
    working_precision,
)
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Block, Evidence
from energyalign.core.free_energy import FreeEnergy

_PIECE_NUMBERS = 1 << 18


@dataclass(frozen=True, eq=False)
class Piece:
    """Some samples of the evidence under the biases: log-posteriors per class, and log Σ_k exp(f_k + b_k)."""

    log_posterior: Array
    log_partition: Array
    samples: Block


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
        # One cluster per class is not enough: the clusters may be numbered in another order than the classes.
        self._shared = clusters.assignment != tuple(range(clusters.n_classes))
        self._members: Floats = np.eye(clusters.n_clusters)[clusters.indices] if self._shared else np.zeros(0)

    def moments(self, biases: Floats, *, curvature: bool) -> Moments:
        """Mass and, if asked for, its derivative, in one pass."""
        size = self.clusters.n_clusters
        log_partition, mass = 0.0, np.zeros(size)
        products = np.zeros((size, size)) if curvature else None
        for piece in self._pieces(biases):
            posterior = self._posterior(piece)
            share = self._share(piece)
            weights = like(share, posterior)
            log_partition += float(share @ to_numpy(piece.log_partition))
            mass += to_numpy(weights @ posterior)
            if products is not None:
                products += to_numpy(posterior.T @ (posterior * weights[:, None]))
        return Moments(log_partition, mass, None if products is None else np.diag(mass) - products)

    def curvature_times(self, biases: Floats, mass: Floats, vector: Floats) -> Floats:
        """The curvature at `biases` times a vector, without the matrix, in one pass."""
        result = mass * vector
        for posterior, share in self.posteriors(biases):
            along = posterior @ like(vector, posterior)
            result -= to_numpy((along * like(share, posterior)) @ posterior)
        return result

    def posteriors(self, biases: Floats) -> Iterator[tuple[Array, Floats]]:
        """Posteriors per sample and cluster, with each sample's share of the evidence."""
        for piece in self._pieces(biases):
            yield self._posterior(piece), self._share(piece)

    def residuals(self, biases: Floats, mass: Floats) -> Iterator[tuple[Array, Floats]]:
        """Posterior minus truth per sample and cluster, with squared shares: what the mass owes to chance.

        The truth is the unit vector of the label's cluster, or the mass where there are no labels.
        """
        for piece in self._pieces(biases):
            posterior = self._posterior(piece)
            samples = piece.samples
            if samples.labels is None:
                truth = np.broadcast_to(mass, posterior.shape)
            else:
                truth = np.zeros(posterior.shape)
                truth[np.arange(len(truth)), self.clusters.indices[samples.labels]] = 1.0
            yield posterior - like(truth, posterior), samples.repeats * (samples.weights / self._total) ** 2

    def spread(self) -> float:
        """Mean distance of a logit from the log-partition of its sample, over samples and classes in play."""
        distance, weight = 0.0, 0.0
        for piece in self._pieces(np.zeros(self.clusters.n_clusters)):
            xp = namespace(piece.log_posterior)
            in_play = xp.isfinite(piece.log_posterior)
            depths = xp.where(in_play, -piece.log_posterior, xp.zeros_like(piece.log_posterior))
            distance += float(self._share(piece) @ to_numpy(xp.sum(depths, axis=1)))
            weight += float(self._share(piece) @ to_numpy(xp.sum(xp.astype(in_play, xp.float64), axis=1)))
        return distance / weight

    def log_mass(self, biases: Floats) -> Floats:
        """Logarithm of the mass, exact also where the mass itself would underflow."""
        energy = FreeEnergy(self.clusters.n_classes)
        for piece in self._pieces(biases):
            energy.update(piece.log_posterior, weights=piece.samples.weights, repeats=piece.samples.repeats)
        per_class = energy.values - np.log(self._total)
        peak = np.full(self.clusters.n_clusters, -np.inf)
        np.maximum.at(peak, self.clusters.indices, per_class)
        peak = np.where(np.isneginf(peak), 0.0, peak)
        with np.errstate(divide="ignore"):
            return peak + np.log(self.clusters.sums(np.exp(per_class - peak[self.clusters.indices])))

    def _pieces(self, biases: Floats) -> Iterator[Piece]:
        """The evidence under the biases, in float64, in pieces that fit the processor's cache."""
        per_class = biases[self.clusters.indices]
        rows = max(1, _PIECE_NUMBERS // self.clusters.n_classes)
        for samples in self.evidence.blocks(rows):
            logits = working_precision(samples.logits, double=True)
            xp = namespace(logits)
            shifted = (logits + like(per_class, logits)[None, :]) / self.temperature
            peak = xp.max(shifted, axis=1, keepdims=True)
            if not np.all(np.isfinite(to_numpy(peak))):
                refuse_bad_value(samples.logits, samples.samples)
                raise EnergyAlignError(
                    "a sample has -inf for every class: a row of logits needs at least one class in play."
                )
            shifted = shifted - peak
            partition = xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
            yield Piece(shifted - partition, (peak + partition)[:, 0], samples)

    def _posterior(self, piece: Piece) -> Array:
        posterior = namespace(piece.log_posterior).exp(piece.log_posterior)
        return posterior @ like(self._members, posterior) if self._shared else posterior

    def _share(self, piece: Piece) -> Floats:
        return piece.samples.weights * piece.samples.repeats / self._total
