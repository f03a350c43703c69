"""A model with one bias per cluster of classes, and what one pass over samples can say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from energyalign.core.arrays import Array, Floats, Ints, like, namespace, refuse_bad_value, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.parts import Block
from energyalign.core.sums import Sums


@dataclass(frozen=True, eq=False)
class Piece:
    """Some samples of the evidence under the biases: log-posteriors per class, and log Σ_k exp(f_k + b_k)."""

    log_posterior: Array
    log_partition: Array
    samples: Block


@dataclass(frozen=True, eq=False)
class BiasedModel:
    """The model as a process needs to know it that goes through a part of the evidence.

    Attributes
    ----------
    biases : array of shape (n_clusters,)
    cluster_of : array of shape (n_classes,)
    temperature : float
        Logits and biases are divided by it.
    total_weight : float
        That of the whole evidence: sums over its parts are means over all of it.
    """

    biases: Floats
    cluster_of: Ints
    temperature: float
    total_weight: float

    def moments(self, blocks: Iterable[Block], *, curvature: bool) -> Sums:
        """Sums for the log-partition, the mass and, if asked for, the products p pᵀ."""
        size = len(self.biases)
        sums = Sums((), (size,), *([(size, size)] if curvature else []))
        for piece in self._pieces(blocks):
            posterior = self._posterior(piece)
            share = self._share(piece)
            weights = like(share, posterior)
            products = [to_numpy(posterior.T @ (posterior * weights[:, None]))] if curvature else []
            sums.add(float(share @ to_numpy(piece.log_partition)), to_numpy(weights @ posterior), *products)
        return sums

    def products_times(self, blocks: Iterable[Block], *, vector: Floats) -> Sums:
        """The products p pᵀ times a vector, without the matrix."""
        sums = Sums((len(self.biases),))
        for posterior, share in self.posteriors(blocks):
            along = posterior @ like(vector, posterior)
            sums.add(to_numpy((along * like(share, posterior)) @ posterior))
        return sums

    def depths(self, blocks: Iterable[Block]) -> Sums:
        """How far the logits in play are below the log-partition of their sample, and how many they are."""
        sums = Sums((), ())
        for piece in self._pieces(blocks):
            xp = namespace(piece.log_posterior)
            in_play = xp.isfinite(piece.log_posterior)
            depths = xp.where(in_play, -piece.log_posterior, xp.zeros_like(piece.log_posterior))
            share = self._share(piece)
            sums.add(
                float(share @ to_numpy(xp.sum(depths, axis=1))),
                float(share @ to_numpy(xp.sum(xp.astype(in_play, xp.float64), axis=1))),
            )
        return sums

    def energies(self, blocks: Iterable[Block]) -> FreeEnergy:
        """Free energies of the log-posteriors, per class: the mass, also where it would underflow."""
        energy = FreeEnergy(len(self.cluster_of))
        for piece in self._pieces(blocks):
            energy.update(piece.log_posterior, weights=piece.samples.weights, repeats=piece.samples.repeats)
        return energy

    def posteriors(self, blocks: Iterable[Block]) -> Iterator[tuple[Array, Floats]]:
        """Posteriors per sample and cluster, with each sample's share of the evidence."""
        for piece in self._pieces(blocks):
            yield self._posterior(piece), self._share(piece)

    def residuals(self, blocks: Iterable[Block], mass: Floats) -> Iterator[tuple[Array, Floats]]:
        """Posterior minus truth per sample and cluster, with squared shares: what the mass owes to chance.

        The truth is the unit vector of the label's cluster, or the mass where there are no labels.
        """
        for piece in self._pieces(blocks):
            posterior = self._posterior(piece)
            samples = piece.samples
            if samples.labels is None:
                truth = np.broadcast_to(mass, posterior.shape)
            else:
                truth = np.zeros(posterior.shape)
                truth[np.arange(len(truth)), self.cluster_of[samples.labels]] = 1.0
            yield posterior - like(truth, posterior), samples.repeats * (samples.weights / self.total_weight) ** 2

    def _pieces(self, blocks: Iterable[Block]) -> Iterator[Piece]:
        """The samples under the biases, in float64."""
        per_class = self.biases[self.cluster_of]
        for samples in blocks:
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
        return posterior if self._members is None else posterior @ like(self._members, posterior)

    def _share(self, piece: Piece) -> Floats:
        return piece.samples.weights * piece.samples.repeats / self.total_weight

    @cached_property
    def _members(self) -> Floats | None:
        """Which classes are in which cluster, or None if each class is the cluster of its own number."""
        # One cluster per class is not enough: the clusters may be numbered in another order than the classes.
        if np.array_equal(self.cluster_of, np.arange(len(self.biases))):
            return None
        return np.eye(len(self.biases))[self.cluster_of]
