"""One pass over the evidence for the likelihood of `shrunk`."""

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
    """All that a process needs for its part of a pass: parameters, log sample sizes, weights, and the floor."""

    temperature: float
    biases: Floats
    cluster_of: Ints
    offsets: Floats
    class_weights: Floats
    depth: float
    products: bool

    def exponentials(self, blocks: Iterable[Block]) -> ExponentialBlocks:
        """Exponentials of s f + b + log m, to be kept while only the biases move."""
        found = ExponentialBlocks()
        members, added = self._members, self.biases[self.cluster_of] + self.offsets
        for block in blocks:
            scores = self.temperature * _floored(block, self.depth)
            scores += like(added, scores)
            peak = namespace(scores).max(scores, axis=1, keepdims=True)
            scores -= peak
            values = namespace(scores).exp(scores)
            values = values if members is None else values @ like(members, values)
            found.append(ExponentialBlock(values, to_numpy(peak)[:, 0], block.repeats))
        return found

    @property
    def _members(self) -> Floats | None:
        """Which classes are in which cluster, or None if each class is the cluster of its own number."""
        size = len(self.biases)
        return None if np.array_equal(self.cluster_of, np.arange(size)) else np.eye(size)[self.cluster_of]

    def sums(self, blocks: Iterable[Block]) -> Sums:
        """Sums for the likelihood without Σ m b, its slope in log s, and the curvature: p pᵀ, or its diagonal."""
        size = len(self.biases)
        sums = Sums((), (), (size + 1,), (size,), (size, size) if self.products else (size,))
        members, added = self._members, self.biases[self.cluster_of] + self.offsets
        for block in blocks:
            logits = _floored(block, self.depth)
            xp = namespace(logits)
            scores = self.temperature * logits
            scores += like(added, logits)
            peak = xp.max(scores, axis=1, keepdims=True)
            scores -= peak
            posterior = xp.exp(scores)
            total = xp.sum(posterior, axis=1, keepdims=True)
            posterior /= total
            shares = posterior * logits
            means, squares = to_numpy(xp.sum(shares, axis=1)), to_numpy(xp.sum(shares * logits, axis=1))
            log_partition = to_numpy(peak + xp.log(total))[:, 0]
            weights, own = block.repeats, np.zeros(len(means))
            if block.labels is not None:
                weights = weights * self.class_weights[block.labels]
                own = take_from_each(logits, block.labels)
            clustered, shared = posterior, shares
            if members is not None:
                clustered, shared = (values @ like(members, values) for values in (posterior, shares))
            by_weight = like(weights, clustered)
            products = np.empty(size + 1)
            products[0] = self.temperature**2 * float(weights @ (squares - means**2))
            products[1:] = self.temperature * to_numpy(
                by_weight @ shared - like(weights * means, clustered) @ clustered
            )
            sums.add(
                float(weights @ (self.temperature * own - log_partition)),
                self.temperature * float(weights @ (own - means)),
                products,
                to_numpy(by_weight @ clustered),
                products_of(clustered, weights) if self.products else to_numpy(by_weight @ (clustered * clustered)),
            )
        return sums


def _floored(block: Block, depth: float) -> Array:
    """Logits below the largest of their sample, at most `depth`: n samples cannot tell smaller posteriors apart."""
    logits = working_precision(block.logits, double=True)
    xp = namespace(logits)
    peak = xp.max(logits, axis=1, keepdims=True)
    if not np.all(np.isfinite(to_numpy(peak))):
        refuse_samples(block)
    return xp.clip(logits - peak, -depth, None)
