"""Shifts of `shrunk` without some of the samples, by what all samples say of the temperature and the variance of u."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.clusters import Clusters
from energyalign.core.estimators.shrunk.likelihood import LikelihoodPass
from energyalign.core.estimators.shrunk.posterior import Posterior, Problem
from energyalign.core.estimators.shrunk.prior import Prior
from energyalign.core.evidence import Evidence
from energyalign.core.kept_exponentials import ExponentialBlock, ExponentialBlocks, KeptExponentials

_MAX_STEPS = 50
_MAX_HALVINGS = 10
_TOLERANCE = 1e-6  # Newton decrement: a thousandth of a standard error


def shifts_without_folds(found: Posterior, evidence: Evidence, clusters: Clusters, folds: Ints) -> list[Floats]:
    """Shifts per cluster, fitted without the samples of each fold of this labelled evidence in turn.

    `found` is the fit to all samples. Its temperature and variance of u are held: two numbers that a fold hardly
    changes. Only the biases are fitted again, from exponentials that all folds share and with the curvature of
    `found`, so that a step costs two products of a matrix with a vector.
    """
    assert evidence.labels is not None
    problem, start = Problem(evidence, clusters, found.log_floor_scale), found.shifts * found.temperature
    prior = Prior(-problem.log_prior, problem.log_prior, found.variance)
    n_folds = int(folds.max()) + 1
    precision = found.scale * (1 - 1 / n_folds) * found.curvature
    inverse = np.linalg.inv(precision + prior.matrix) if precision.ndim == 2 else None

    def solve(gradient: Floats) -> Floats:
        return prior.solve_with(precision, gradient) if inverse is None else np.asarray(inverse @ gradient)

    model = LikelihoodPass(
        found.temperature, start, clusters.indices, problem.offsets, np.ones(evidence.n_classes), problem.depth,
        products=False,
    )  # fmt: skip
    blocks = evidence.accumulate(model.exponentials)
    counted = evidence.occurrences > 0
    cluster_of, fold_of = clusters.indices[evidence.labels[counted]], folds[counted]
    weights = evidence.occurrences[counted]
    total = np.bincount(cluster_of, weights, clusters.n_clusters).astype(np.float64)
    result = []
    for fold in range(n_folds):
        left = np.where(fold_of == fold, 0.0, weights)
        rest = _Rest(
            _weighted(blocks, left),
            np.bincount(cluster_of, left, clusters.n_clusters).astype(np.float64),
            total,
            start,
            prior,
            found.scale,
        )
        biases = rest.most_probable(solve)
        result.append(np.where(problem.in_play, biases, biases[clusters.anchor]) / found.temperature)
    return result


def _weighted(blocks: ExponentialBlocks, weights: Floats) -> ExponentialBlocks:
    ends = np.cumsum([len(block.peaks) for block in blocks])
    return ExponentialBlocks(
        ExponentialBlock(block.values, block.peaks, own)
        for block, own in zip(blocks, np.split(weights, ends[:-1]), strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Rest:
    """The samples of all folds but one: their exponentials, their number in each cluster, and that of all samples."""

    blocks: ExponentialBlocks
    samples: Floats
    of_all: Floats
    start: Floats
    prior: Prior
    scale: float

    def most_probable(self, solve: Callable[[Floats], Floats]) -> Floats:
        """Biases by steps with one inverse curvature, halved where the posterior would fall."""
        biases = self.start
        value, gradient = self._at(biases)
        for _ in range(_MAX_STEPS):
            step = solve(gradient)
            if float(gradient @ step) <= _TOLERANCE:
                break
            for _ in range(_MAX_HALVINGS):
                new_value, new_gradient = self._at(biases + step)
                if new_value >= value:
                    break
                step = step / 2
            biases, value, gradient = biases + step, new_value, new_gradient
        return biases

    def _at(self, biases: Floats) -> tuple[float, Floats]:
        """The log posterior, up to a constant, and its slope."""
        kept = KeptExponentials(self.blocks, self.start, 1.0)
        fewer = np.log(np.divide(self.samples, self.of_all, out=np.ones_like(biases), where=self.samples > 0))
        log_partition, mass = kept.moments(biases + fewer, curvature=False).values
        away = biases - self.prior.mean
        pull = self.prior.times(away)
        value = self.scale * (float(self.samples @ biases) - float(log_partition)) - 0.5 * float(away @ pull)
        return value, self.scale * (self.samples - mass) - pull
