"""The mean posterior of a model over the evidence, as a function of biases shared by clusters of classes."""

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

# In a block: few numbers stay in the processor's cache, but products p pᵀ of many clusters are faster with more rows.
_MIN_NUMBERS, _MAX_NUMBERS = 1 << 16, 1 << 19
_ROWS_PER_BLOCK = 512


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
        self.is_small = evidence.n_samples * evidence.n_classes < MANY_PASSES  # its exponentials are kept
        self._kept: KeptExponentials | None = None

    def at(self, biases: Floats) -> BiasedModel:
        """The model with these biases, one per cluster."""
        return BiasedModel(biases, self.clusters.indices, self.temperature, self._total, self._compiled)

    def moments(self, biases: Floats, *, curvature: bool) -> Moments:
        """Mass and, if asked for, its derivative, in one pass."""
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
        """The curvature at `biases` times a vector, without the matrix, in one pass."""
        kept = self._kept_near(biases)
        if kept is not None:
            return mass * vector - kept.products_times(biases, vector)
        (products,) = self.evidence.accumulate(partial(self.at(biases).products_times, vector=vector)).values
        return mass * vector - products

    def _kept_near(self, biases: Floats) -> KeptExponentials | None:
        """Exponentials that serve for these biases, or None: the evidence is large, or the first biases were far."""
        if not self.is_small:
            return None
        if self._kept is None:
            blocks = self.evidence.accumulate(
                self.at(biases).exponentials, numbers_for_products(self.evidence.n_classes)
            )
            self._kept = KeptExponentials(blocks, biases, self.temperature)
        return self._kept if self._kept.serves(biases) else None

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


def numbers_for_products(n_classes: int) -> int:
    """How many numbers a block should have whose posteriors are multiplied with themselves."""
    return min(max(_MIN_NUMBERS, _ROWS_PER_BLOCK * n_classes), _MAX_NUMBERS)


def _less_products(mass: Floats, products: Floats) -> Floats:
    """diag(mass) - products, in their place."""
    np.negative(products, out=products)
    products[np.diag_indices_from(products)] += mass
    return products


class Posteriors(NamedTuple):
    """Some samples of the evidence under the biases: posteriors per class, and log Σ_k exp(f_k + b_k)."""

    values: Array
    log_partition: Floats
    samples: Block


class LogPosteriors(NamedTuple):
    """The same as logarithms, exact also where the posteriors would underflow."""

    values: Array
    samples: Block


@dataclass(frozen=True, eq=False)
class BiasedModel:
    """The model with biases: all that a process needs for its part of a pass over the evidence.

    Attributes
    ----------
    biases : array of shape (n_clusters,)
    cluster_of : array of shape (n_classes,)
    temperature : float
        Logits and biases are divided by it.
    total_weight : float
        That of the whole evidence: sums over its parts are means over all of it.
    compiled : bool
        Whether posteriors of NumPy's logits come from compiled loops.
    """

    biases: Floats
    cluster_of: Ints
    temperature: float
    total_weight: float
    compiled: bool

    def moments(self, blocks: Iterable[Block], *, curvature: bool) -> Sums:
        """Sums for the log-partition, the mass and, if asked for, the products p pᵀ."""
        size = len(self.biases)
        sums = Sums((), (size,), *([(size, size)] if curvature else []))
        for piece in self._pieces(blocks):
            posterior = self._clustered(piece.values)
            share = self.shares(piece.samples)
            mass = to_numpy(like(share, posterior) @ posterior)
            # No variable holds the products: it would keep them in memory beside the next ones.
            terms = (float(share @ piece.log_partition), mass)
            sums.add(*terms, products_of(posterior, share)) if curvature else sums.add(*terms)
        return sums

    def exponentials(self, blocks: Iterable[Block]) -> ExponentialBlocks:
        """Exponentials per cluster, relative to the largest of each sample."""
        found = ExponentialBlocks()
        for samples in blocks:
            shifted, peak = self._shifted(samples)
            values = self._clustered(namespace(shifted).exp(shifted))
            found.append(ExponentialBlock(values, to_numpy(peak)[:, 0], self.shares(samples)))
        return found

    def products_times(self, blocks: Iterable[Block], *, vector: Floats) -> Sums:
        """The products p pᵀ times a vector, without the matrix."""
        sums = Sums((len(self.biases),))
        for posterior, samples in self.posteriors(blocks):
            along = posterior @ like(vector, posterior)
            sums.add(to_numpy((along * like(self.shares(samples), posterior)) @ posterior))
        return sums

    def depths(self, blocks: Iterable[Block]) -> Sums:
        """How far the logits in play are below the log-partition of their sample, and how many they are."""
        sums = Sums((), ())
        for piece in self._pieces(blocks):
            logits = working_precision(piece.samples.logits, double=True)
            xp = namespace(logits)
            in_play = xp.isfinite(logits)
            biased = (logits + like(self.biases[self.cluster_of], logits)[None, :]) / self.temperature
            above = to_numpy(xp.sum(xp.where(in_play, biased, xp.zeros_like(biased)), axis=1))
            n_in_play = to_numpy(xp.sum(xp.astype(in_play, xp.float64), axis=1))
            share = self.shares(piece.samples)
            sums.add(float(share @ (n_in_play * piece.log_partition - above)), float(share @ n_in_play))
        return sums

    def energies(self, blocks: Iterable[Block]) -> FreeEnergy:
        """Free energies of the log-posteriors, per class: the mass, also where it would underflow."""
        energy = FreeEnergy(len(self.cluster_of))
        for values, samples in self._log_pieces(blocks):
            energy.update(values, weights=samples.weights, repeats=samples.repeats)
        return energy

    def posteriors(self, blocks: Iterable[Block]) -> Iterator[tuple[Array, Block]]:
        """Posteriors per sample and cluster, with the samples."""
        for piece in self._pieces(blocks):
            yield self._clustered(piece.values), piece.samples

    def shares(self, samples: Block) -> Floats:
        """What part of the evidence each sample is, with those that it stands for."""
        return samples.weights * samples.repeats / self.total_weight

    def squared_shares(self, samples: Block) -> Floats:
        """The sum of the squared shares of the samples that each stands for."""
        return samples.repeats * (samples.weights / self.total_weight) ** 2

    def _pieces(self, blocks: Iterable[Block]) -> Iterator[Posteriors]:
        """Compute posteriors in float64, block by block."""
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

    def _log_pieces(self, blocks: Iterable[Block]) -> Iterator[LogPosteriors]:
        for samples in blocks:
            shifted, _ = self._shifted(samples)
            xp = namespace(shifted)
            yield LogPosteriors(shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True)), samples)

    def _shifted(self, samples: Block) -> tuple[Array, Array]:
        """Add the biases, and subtract the largest of each sample; return both."""
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
        """Which classes are in which cluster, or None if each class is the cluster of its own number."""
        # One cluster per class is not enough: the clusters may be numbered in another order than the classes.
        if np.array_equal(self.cluster_of, np.arange(len(self.biases))):
            return None
        return np.eye(len(self.biases))[self.cluster_of]


def products_of(rows: Array, weights: Floats) -> Floats:
    """Σ w r rᵀ over the rows r."""
    scaled = rows * like(np.sqrt(weights), rows)[:, None]
    return to_numpy(scaled.T @ scaled)  # a product with itself: half the work of another


def refuse_samples(samples: Block) -> NoReturn:
    """Say what is wrong with samples whose log-partition is not finite."""
    refuse_bad_value(samples.logits, samples.samples)
    raise BadValueError("a sample has -inf for every class: a row of logits needs at least one class in play.")
