"""The mean posterior of a model over the evidence, as a function of one bias per cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, NoReturn

import numpy as np

from energyalign.core._engine.compiled import MANY_PASSES, require_installed
from energyalign.core._engine.exponential_sums import read_only
from energyalign.core._engine.forks import cached_property
from energyalign.core._engine.parts import Block, Sums
from energyalign.core.arrays import Array, Floats, Ints, like, namespace, refuse_bad_value, to_numpy, working_precision
from energyalign.core.clusters import Clusters
from energyalign.core.errors import BadValueError
from energyalign.core.evidence import Evidence
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.kept_exponentials import ExponentialBlock, ExponentialBlocks, KeptExponentials

# Size of a block: small ones stay in the processor's cache, but products p pᵀ of many clusters need more rows.
_MIN_NUMBERS, _MAX_NUMBERS = 1 << 16, 1 << 19
_ROWS_PER_BLOCK = 512


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted means over the evidence, at one vector of biases.

    Attributes
    ----------
    log_partition : float
        Mean of log Σ_k exp(f_k + b_k). Its derivative with respect to the biases is the mass.
    mass : array of shape (n_clusters,)
        Mean posterior of each cluster.
    curvature : array of shape (n_clusters, n_clusters), or None if not requested
        Mean of diag(p) - p pᵀ: the derivative of the mass with respect to the biases.
    """

    log_partition: float
    mass: Floats
    curvature: Floats | None


class MeanPosterior:
    """Mean posteriors over the evidence, of the model with one bias per cluster.

    Logits and biases are divided by `temperature` (default 1).
    """

    def __init__(self, evidence: Evidence, clusters: Clusters, temperature: float = 1.0) -> None:
        self.evidence = evidence
        self.clusters = clusters
        self.temperature = temperature
        self._total = evidence.total_weight
        self._compiled = evidence.uses_compiled_loops(MANY_PASSES)
        self.is_small = evidence.n_samples * evidence.n_classes < MANY_PASSES  # then its exponentials are cached
        self._kept: KeptExponentials | None = None

    def at(self, biases: Floats) -> BiasedModel:
        """Return the model with these biases, one per cluster."""
        return BiasedModel(biases, self.clusters.indices, self.temperature, self._total, self._compiled)

    def moments(self, biases: Floats, *, curvature: bool) -> Moments:
        """Compute log-partition, mass and, if requested, curvature in one pass."""
        kept = self._kept_near(biases)
        if kept is not None:
            sums = kept.moments(biases, curvature=curvature)
        else:
            fill = partial(self.at(biases).moments, curvature=curvature)
            numbers = [numbers_for_products(self.evidence.n_classes)] if curvature else []
            sums = self.evidence.accumulate(fill, *numbers)
        log_partition, mass, *products = sums.values
        return Moments(float(log_partition), mass, _less_products(mass, *products) if curvature else None)

    def curvature_times(self, biases: Floats, mass: Floats, vector: Floats) -> Floats:
        """Multiply the curvature at `biases` by a vector in one pass, without the matrix."""
        kept = self._kept_near(biases)
        if kept is not None:
            return mass * vector - kept.products_times(biases, vector)
        (products,) = self.evidence.accumulate(partial(self.at(biases).products_times, vector=vector)).values
        return mass * vector - products

    def _kept_near(self, biases: Floats) -> KeptExponentials | None:
        """Return cached exponentials for these biases; None for large evidence or biases far from the cached ones."""
        if not self.is_small:
            return None
        if self._kept is None:
            blocks = self.evidence.accumulate(
                self.at(biases).exponentials, numbers_for_products(self.evidence.n_classes)
            )
            self._kept = KeptExponentials(blocks, biases, self.temperature)
        return self._kept if self._kept.serves(biases) else None

    def spread(self) -> float:
        """Return the mean distance of finite logits from the log-partition of their sample."""
        distance, weight = self.evidence.accumulate(self.at(np.zeros(self.clusters.n_clusters)).depths).values
        return float(distance / weight)

    def log_mass(self, biases: Floats) -> Floats:
        """Return the logarithm of the mass, also where the mass would underflow."""
        per_class = self.evidence.accumulate(self.at(biases).energies).values - np.log(self._total)
        peak = np.full(self.clusters.n_clusters, -np.inf)
        np.maximum.at(peak, self.clusters.indices, per_class)
        peak = np.where(np.isneginf(peak), 0.0, peak)
        with np.errstate(divide="ignore"):
            return peak + np.log(self.clusters.sums(np.exp(per_class - peak[self.clusters.indices])))


def numbers_for_products(n_classes: int) -> int:
    """Return the size of a block for computing products p pᵀ."""
    return min(max(_MIN_NUMBERS, _ROWS_PER_BLOCK * n_classes), _MAX_NUMBERS)


def _less_products(mass: Floats, products: Floats) -> Floats:
    """Compute diag(mass) - products in place."""
    np.negative(products, out=products)
    products[np.diag_indices_from(products)] += mass
    return products


class Posteriors(NamedTuple):
    """Posteriors per sample and class, and log Σ_k exp(f_k + b_k) per sample."""

    values: Array
    log_partition: Floats
    samples: Block


@dataclass(frozen=True, eq=False)
class BiasedModel:
    """The model with biases: all that a process needs for its part of a pass.

    Attributes
    ----------
    biases : array of shape (n_clusters,)
    cluster_of : array of shape (n_classes,)
    temperature : float
        Logits and biases are divided by it.
    total_weight : float
        Total weight of the evidence: sums over parts are means over all of it.
    compiled : bool
        Whether to use compiled loops for NumPy arrays.
    """

    biases: Floats
    cluster_of: Ints
    temperature: float
    total_weight: float
    compiled: bool

    def moments(self, blocks: Iterable[Block], *, curvature: bool) -> Sums:
        """Sum the log-partition, the mass and, with `curvature`, the products p pᵀ."""
        size = len(self.biases)
        sums = Sums((), (size,), *([(size, size)] if curvature else []))
        for piece in self._pieces(blocks):
            posterior = self._clustered(piece.values)
            share = self.shares(piece.samples)
            mass = to_numpy(like(share, posterior) @ posterior)
            # Do not bind the products to a name, which would keep them in memory beside the next ones.
            terms = (float(share @ piece.log_partition), mass)
            sums.add(*terms, products_of(posterior, share)) if curvature else sums.add(*terms)
        return sums

    def exponentials(self, blocks: Iterable[Block]) -> ExponentialBlocks:
        """Compute exponentials per cluster, relative to the peak of each sample."""
        result = ExponentialBlocks()
        for samples in blocks:
            shifted, peak = self._shifted(samples)
            values = self._clustered(namespace(shifted).exp(shifted))
            result.append(ExponentialBlock(values, to_numpy(peak)[:, 0], self.shares(samples)))
        return result

    def products_times(self, blocks: Iterable[Block], *, vector: Floats) -> Sums:
        """Multiply the sum of p pᵀ by a vector, without the matrix."""
        sums = Sums((len(self.biases),))
        for posterior, samples in self.posteriors(blocks):
            along = posterior @ like(vector, posterior)
            sums.add(to_numpy((along * like(self.shares(samples), posterior)) @ posterior))
        return sums

    def depths(self, blocks: Iterable[Block]) -> Sums:
        """Sum and count the distances of finite logits from the log-partition of their sample."""
        sums = Sums((), ())
        for piece in self._pieces(blocks):
            logits = working_precision(piece.samples.logits, double=True)
            xp = namespace(logits)
            finite = xp.isfinite(logits)
            biased = (logits + like(self.biases[self.cluster_of], logits)[None, :]) / self.temperature
            total = to_numpy(xp.sum(xp.where(finite, biased, xp.zeros_like(biased)), axis=1))
            n_finite = to_numpy(xp.sum(xp.astype(finite, xp.float64), axis=1))
            share = self.shares(piece.samples)
            sums.add(float(share @ (n_finite * piece.log_partition - total)), float(share @ n_finite))
        return sums

    def energies(self, blocks: Iterable[Block]) -> FreeEnergy:
        """Compute free energies of the log-posteriors: the logarithm of the mass per class."""
        energy = FreeEnergy(len(self.cluster_of))
        for samples in blocks:
            shifted, _ = self._shifted(samples)
            xp = namespace(shifted)
            log_posteriors = shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
            energy.update(log_posteriors, weights=samples.weights, repeats=samples.repeats)
        return energy

    def posteriors(self, blocks: Iterable[Block]) -> Iterator[tuple[Array, Block]]:
        """Yield posteriors per sample and cluster, with the samples."""
        for piece in self._pieces(blocks):
            yield self._clustered(piece.values), piece.samples

    def shares(self, samples: Block) -> Floats:
        """Return the share of each sample, with its repeats, in the evidence."""
        return samples.weights * samples.repeats / self.total_weight

    def squared_shares(self, samples: Block) -> Floats:
        """Return the sum of squared shares over the repeats of each sample."""
        return samples.repeats * (samples.weights / self.total_weight) ** 2

    def _pieces(self, blocks: Iterable[Block]) -> Iterator[Posteriors]:
        """Yield posteriors in float64, block by block."""
        for samples in blocks:
            if self.compiled and isinstance(samples.logits, np.ndarray):
                yield self._by_compiled_loop(samples)
                continue
            shifted, peak = self._shifted(samples)
            values = namespace(shifted).exp(shifted)
            total = namespace(shifted).sum(values, axis=1, keepdims=True)
            yield Posteriors(values / total, to_numpy(peak + namespace(shifted).log(total))[:, 0], samples)

    def _by_compiled_loop(self, samples: Block) -> Posteriors:
        require_installed()
        from energyalign.core._engine.compiled.loops import fill_posteriors

        logits = read_only(working_precision(samples.logits))
        values, log_partition = np.empty(logits.shape), np.empty(len(logits))
        fill_posteriors(logits, self.biases[self.cluster_of], self.temperature, values, log_partition)
        if not np.all(np.isfinite(log_partition)):
            refuse_samples(samples)
        return Posteriors(values, log_partition, samples)

    def _shifted(self, samples: Block) -> tuple[Array, Array]:
        """Add the biases and subtract the peak of each sample; return both."""
        logits = working_precision(samples.logits, double=True)
        xp = namespace(logits)
        shifted = logits + like(self.biases[self.cluster_of], logits)[None, :]
        if self.temperature != 1.0:
            shifted /= self.temperature
        peak = xp.max(shifted, axis=1, keepdims=True)
        if not np.all(np.isfinite(to_numpy(peak))):
            refuse_samples(samples)
        shifted -= peak
        return shifted, peak

    def _clustered(self, posterior: Array) -> Array:
        return posterior if self._members is None else posterior @ like(self._members, posterior)

    @cached_property
    def _members(self) -> Floats | None:
        """Indicator matrix (n_classes, n_clusters), or None if class k is cluster k."""
        # With one cluster per class, clusters may still be numbered in another order.
        if np.array_equal(self.cluster_of, np.arange(len(self.biases))):
            return None
        return np.eye(len(self.biases))[self.cluster_of]


def products_of(rows: Array, weights: Floats) -> Floats:
    """Compute Σ w r rᵀ over the rows r."""
    scaled = rows * like(np.sqrt(weights), rows)[:, None]
    return to_numpy(scaled.T @ scaled)  # symmetric: half the work


def refuse_samples(samples: Block) -> NoReturn:
    """Raise for samples whose log-partition is not finite."""
    refuse_bad_value(samples.logits, samples.samples)
    raise BadValueError("a sample has -inf for every class: a row of logits needs at least one finite logit.")
