"""Cross-fitted shifts of `shrunk`, with the temperature and the variance of u from the fit to all samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.clusters import Clusters
from energyalign.core.estimators.shrunk.likelihood import LikelihoodPass
from energyalign.core.estimators.shrunk.posterior import Posterior, Problem
from energyalign.core.estimators.shrunk.prior import BiasPrior
from energyalign.core.evidence import Evidence
from energyalign.core.kept_exponentials import ExponentialBlock, ExponentialBlocks, KeptExponentials

_MAX_STEPS = 50
_MAX_HALVINGS = 10
_TOLERANCE = 1e-6  # Newton decrement: a thousandth of a standard error


def shifts_without_folds(posterior: Posterior, evidence: Evidence, clusters: Clusters, folds: Ints) -> list[Floats]:
    """Return shifts per cluster for each fold, fitted to the labelled samples of the other folds.

    `posterior` is the fit to all samples. Its temperature and variance of u are kept: two numbers that a fold hardly
    changes. Only the biases are refitted, with the same curvature and with exponentials that all folds share, so that a
    step costs two matrix-vector products.
    """
    assert evidence.labels is not None
    problem, start = Problem(evidence, clusters, posterior.log_floor_scale), posterior.shifts * posterior.temperature
    prior = BiasPrior(-problem.log_prior, problem.log_prior, posterior.variance)
    n_folds = int(folds.max()) + 1
    curvature = posterior.scale * (1 - 1 / n_folds) * posterior.curvature
    inverse = np.linalg.inv(curvature + prior.precision) if curvature.ndim == 2 else None

    def newton_step(gradient: Floats) -> Floats:
        return prior.solve(curvature, gradient) if inverse is None else np.asarray(inverse @ gradient)

    model = LikelihoodPass(
        posterior.temperature, start, clusters.indices, problem.offsets, np.ones(evidence.n_classes), problem.depth,
        products=False,
    )  # fmt: skip
    blocks = evidence.accumulate(model.exponentials)
    block_ends = np.cumsum([len(block.peaks) for block in blocks])[:-1]
    kept = evidence.occurrences > 0
    cluster_of, fold_of, weights = clusters.indices[evidence.labels[kept]], folds[kept], evidence.occurrences[kept]
    total = np.bincount(cluster_of, weights, clusters.n_clusters).astype(np.float64)
    result = []
    for fold in range(n_folds):
        rest_weights = np.where(fold_of == fold, 0.0, weights)
        rest_blocks = ExponentialBlocks(
            ExponentialBlock(block.values, block.peaks, own)
            for block, own in zip(blocks, np.split(rest_weights, block_ends), strict=True)
        )
        samples = np.bincount(cluster_of, rest_weights, clusters.n_clusters).astype(np.float64)
        log_shares = np.log(np.divide(samples, total, out=np.ones_like(start), where=samples > 0))
        rest = _Rest(KeptExponentials(rest_blocks, start, 1.0), samples, log_shares, prior, posterior.scale)
        biases = rest.maximise(newton_step)
        result.append(np.where(problem.in_play, biases, biases[clusters.anchor]) / posterior.temperature)
    return result


@dataclass(frozen=True, eq=False)
class _Rest:
    """The samples of all folds but one."""

    exponentials: KeptExponentials
    samples: Floats  # number of samples in each cluster
    log_shares: Floats  # logarithm of the share of a cluster's samples that are in these folds; 0 if none are
    prior: BiasPrior
    scale: float  # factor of the likelihood

    def maximise(self, newton_step: Callable[[Floats], Floats]) -> Floats:
        """Return the most probable biases. Halve a step if the posterior would fall."""
        biases = self.exponentials.origin
        value, gradient = self._evaluate(biases)
        for _ in range(_MAX_STEPS):
            step = newton_step(gradient)
            if float(gradient @ step) <= _TOLERANCE:
                break
            for _ in range(_MAX_HALVINGS):
                new_value, new_gradient = self._evaluate(biases + step)
                if new_value >= value:
                    break
                step = step / 2
            else:
                break  # rounding prevents further progress
            biases, value, gradient = biases + step, new_value, new_gradient
        return biases

    def _evaluate(self, biases: Floats) -> tuple[float, Floats]:
        """Return the log posterior, up to a constant, and its gradient."""
        log_partition, mass = self.exponentials.moments(biases + self.log_shares, curvature=False).values
        away = biases - self.prior.mean
        pull = self.prior.times(away)
        value = self.scale * (float(self.samples @ biases) - float(log_partition)) - 0.5 * float(away @ pull)
        return value, self.scale * (self.samples - mass) - pull
