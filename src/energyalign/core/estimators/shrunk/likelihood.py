"""Likelihood of `shrunk`, summed in one pass over the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from energyalign.core._engine.parts import Block, Sums
from energyalign.core.arrays import Array, Floats, Ints, like, namespace, take_from_each, to_numpy, working_precision
from energyalign.core.kept_exponentials import ExponentialBlock, ExponentialBlocks
from energyalign.core.mean_posterior import products_of, refuse_samples


@dataclass(frozen=True, eq=False)
class LikelihoodPass:
    """Everything that a process needs for its part of a pass."""

    temperature: float  # s: factor of the logits
    biases: Floats  # b, per cluster
    cluster_of: Ints
    offsets: Floats  # log m: logarithm of the number of samples, per class
    class_weights: Floats
    depth: float  # logits are clipped this far below the largest of their sample
    products: bool  # whether to sum the matrix p pᵀ, or only its diagonal

    def exponentials(self, blocks: Iterable[Block]) -> ExponentialBlocks:
        """Return the exponentials of s f + b + log m, which can be reused while only the biases change."""
        result, members = ExponentialBlocks(), self._members
        for block in blocks:
            values, peak = self._exponentiate(self._clip(block))
            values = values if members is None else values @ like(members, values)
            result.append(ExponentialBlock(values, to_numpy(peak)[:, 0], block.repeats))
        return result

    def sums(self, blocks: Iterable[Block]) -> Sums:
        """Sum the log-likelihood without Σ m b, its derivative by log s, and its curvature.

        The curvature is returned as its row of log s, the masses Σ p, and the products Σ p pᵀ or their diagonal.
        """
        size, members = len(self.biases), self._members
        sums = Sums((), (), (size + 1,), (size,), (size, size) if self.products else (size,))
        for block in blocks:
            logits = self._clip(block)
            xp = namespace(logits)
            posterior, peak = self._exponentiate(logits)
            total = xp.sum(posterior, axis=1, keepdims=True)
            posterior /= total
            shares = posterior * logits
            means, squares = to_numpy(xp.sum(shares, axis=1)), to_numpy(xp.sum(shares * logits, axis=1))
            log_partition = to_numpy(peak + xp.log(total))[:, 0]
            weights, own = block.repeats, np.zeros(len(means))
            if block.labels is not None:
                weights = weights * self.class_weights[block.labels]
                own = take_from_each(logits, block.labels)
            if members is not None:
                posterior, shares = (values @ like(members, values) for values in (posterior, shares))
            by_weight = like(weights, posterior)
            temperature_row = np.empty(size + 1)
            temperature_row[0] = self.temperature**2 * float(weights @ (squares - means**2))
            temperature_row[1:] = self.temperature * to_numpy(
                by_weight @ shares - like(weights * means, posterior) @ posterior
            )
            sums.add(
                float(weights @ (self.temperature * own - log_partition)),
                self.temperature * float(weights @ (own - means)),
                temperature_row,
                to_numpy(by_weight @ posterior),
                products_of(posterior, weights) if self.products else to_numpy(by_weight @ (posterior * posterior)),
            )
        return sums

    def _exponentiate(self, logits: Array) -> tuple[Array, Array]:
        """Return exp(s f + b + log m - peak) and the peak: the largest exponent of each sample."""
        xp = namespace(logits)
        scores = self.temperature * logits
        scores += like(self.biases[self.cluster_of] + self.offsets, scores)
        peak = xp.max(scores, axis=1, keepdims=True)
        scores -= peak
        return xp.exp(scores), peak

    @property
    def _members(self) -> Floats | None:
        """One-hot matrix of the cluster of each class, or None if class k is cluster k."""
        size = len(self.biases)
        return None if np.array_equal(self.cluster_of, np.arange(size)) else np.eye(size)[self.cluster_of]

    def _clip(self, block: Block) -> Array:
        """Return logits minus the largest of their sample, clipped: n samples cannot show smaller posteriors."""
        logits = working_precision(block.logits, double=True)
        xp = namespace(logits)
        peak = xp.max(logits, axis=1, keepdims=True)
        if not np.all(np.isfinite(to_numpy(peak))):
            refuse_samples(block)
        return xp.clip(logits - peak, -self.depth, None)
