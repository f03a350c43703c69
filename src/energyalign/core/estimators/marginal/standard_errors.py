"""Standard errors of the biases of `marginal`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.parts import Block, Sums
from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Floats, like, take_from_each, to_numpy
from energyalign.core.estimators.marginal.balancing import Balance, hold_constant
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import BiasedModel, MeanPosterior, Moments

# A direction is flat if its curvature, a difference of masses, is below _FLAT times the largest or below _ROUNDING.
_FLAT = 1e-12
_ROUNDING = 1e-15
_APART = 1e-6  # minimum distance of two classes along a flat direction
_WELL_CONDITIONED = 1e8  # maximum condition number for a plain inverse; no direction is then nearly flat
# Maximum condition number for variances from moments, whose relative error grows with its square.
_LITTLE_CANCELLATION = 1e5
_MAX_JOINT = 1024  # clusters; with more, only the diagonal of the curvature is used
_MAX_PRODUCTS = 1 << 33  # samples times clusters²; more samples are thinned
_MIN_PER_CLASS = 12  # samples that thinning keeps


def standard_errors(model: MeanPosterior, solution: Balance) -> tuple[Floats, Floats]:
    """Return the standard error of each bias, and of its difference from the anchor's bias."""
    if model.clusters.n_clusters <= _MAX_JOINT:
        return _joint_errors(model, solution)
    return _diagonal_errors(model, solution)


def _joint_errors(model: MeanPosterior, solution: Balance) -> tuple[Floats, Floats]:
    """Compute sandwich standard errors: curvature⁻¹ · covariance of the mass · curvature⁻¹."""
    max_samples = max(1, _MAX_PRODUCTS // model.clusters.n_clusters**2)
    part = thin_and_repeat(model.evidence, max_samples, min_per_class=_MIN_PER_CLASS)
    biases, moments, anchor = solution.biases, solution.moments, model.clusters.anchor
    if part is not model.evidence:
        model = MeanPosterior(part, model.clusters)
        moments = model.moments(biases, curvature=True)
    elif moments.curvature is None:
        moments = model.moments(biases, curvature=True)
    assert moments.curvature is not None
    inverse, flat = _invert(moments.curvature)
    condition = float(np.linalg.norm(moments.curvature, 1)) * float(np.linalg.norm(inverse, 1))
    if part.labels is None and condition < _LITTLE_CANCELLATION:
        variance, against_anchor = _moment_variances(moments, inverse, anchor, part.total_weight)
    else:
        biased = model.at(biases)
        expectation = _joint_expectation(biased, part, moments.mass)
        variance, against_anchor = part.accumulate(partial(_variances, biased, expectation, inverse, anchor)).values
    # The evidence says nothing about a flat direction: shifts between classes that differ along it are unknown.
    variance[np.any(np.abs(flat) > _APART, axis=1)] = np.inf
    against_anchor[np.any(np.abs(flat - flat[anchor]) > _APART, axis=1)] = np.inf
    return np.sqrt(variance), np.sqrt(against_anchor)


def _moment_variances(moments: Moments, inverse: Floats, anchor: int, total_weight: float) -> tuple[Floats, Floats]:
    """Compute the result of `_variances` for evidence without labels, without another pass."""
    assert moments.curvature is not None
    # H⁻¹ (D - H - m mᵀ) H⁻¹ with the masses m and D = diag(m): only its diagonal and one row are needed.
    moved, drift = inverse * moments.mass, inverse @ moments.mass
    variance = np.maximum(np.einsum("ij,ij->i", moved, inverse) - np.diag(inverse) - drift**2, 0.0)
    with_anchor = moved[anchor] @ inverse - inverse[anchor] - drift[anchor] * drift
    against_anchor = np.maximum(variance + variance[anchor] - 2 * with_anchor, 0.0)
    against_anchor[anchor] = 0.0
    return variance / total_weight, against_anchor / total_weight


class _Expectation(NamedTuple):
    """Expected posterior per class, and the factors that make squared deviations from it unbiased.

    Labels fix the number of samples of each class, so only the variance within classes counts (case-control). A single
    sample has no variance: then the expectation is its one-hot label. Without labels, it is the mass for all samples.
    """

    posteriors: Floats
    factors: Floats

    def squared_shares(self, model: BiasedModel, samples: Block) -> Floats:
        factors = self.factors[0] if samples.labels is None else self.factors[samples.labels]
        return factors * model.squared_shares(samples)


def _joint_expectation(model: BiasedModel, evidence: Evidence, mass: Floats) -> _Expectation:
    if evidence.label_counts is None:
        return _Expectation(mass[None, :], np.ones(1))
    weight, sums = evidence.accumulate(partial(_sums_by_class, model)).values
    several = evidence.label_counts > 1
    expected = np.eye(len(mass))[model.cluster_of]
    expected[several] = sums[several] / weight[several, None]
    return _Expectation(expected, _unbiased(evidence.label_counts))


def _unbiased(samples: Floats) -> Floats:
    """Return n / (n - 1) for classes with several samples, else 1."""
    return np.where(samples > 1, samples / np.maximum(samples - 1, 1e-300), 1.0)


def _sums_by_class(model: BiasedModel, blocks: Iterable[Block]) -> Sums:
    """Sum the squared shares of the samples of each class, and their products with the posteriors."""
    n_classes = len(model.cluster_of)
    sums = Sums((n_classes,), (n_classes, len(model.biases)))
    for posterior, samples in model.posteriors(blocks):
        assert samples.labels is not None
        weights = np.zeros((n_classes, len(samples.labels)))  # smaller than rows of an identity matrix
        weights[samples.labels, np.arange(len(samples.labels))] = model.squared_shares(samples)
        sums.add(weights.sum(axis=1), to_numpy(like(weights, posterior) @ posterior))
    return sums


def _variances(
    model: BiasedModel, expectation: _Expectation, inverse: Floats, anchor: int, blocks: Iterable[Block]
) -> Sums:
    """Sum the variance of each bias, and of its difference from the anchor's bias."""
    sums = Sums(model.biases.shape, model.biases.shape)
    # Sum over samples, without a covariance matrix, so that terms cancel before they are squared.
    for posterior, samples in model.posteriors(blocks):
        expected = expectation.posteriors if samples.labels is None else expectation.posteriors[samples.labels]
        weights = like(expectation.squared_shares(model, samples), posterior)
        moved = (posterior - like(expected, posterior)) @ like(inverse, posterior)
        sums.add(to_numpy(weights @ moved**2), to_numpy(weights @ (moved - moved[:, anchor : anchor + 1]) ** 2))
    return sums


def _invert(curvature: Floats) -> tuple[Floats, Floats]:
    """Return the inverse of the curvature without the direction of a constant, and other flat directions as columns."""
    active = np.diag(curvature) > 0
    if active.all():
        return _invert_active(curvature)
    inverse = np.zeros_like(curvature)
    flat = np.eye(len(curvature))[:, ~active]
    if active.any():
        inner = np.ix_(active, active)
        inverse[inner], directions = _invert_active(curvature[inner])
        more = np.zeros((len(curvature), directions.shape[1]))
        more[active] = directions
        flat = np.hstack([flat, more])
    return inverse, flat


def _invert_active(curvature: Floats) -> tuple[Floats, Floats]:
    held = hold_constant(curvature)
    flat = np.zeros((len(held), 0))
    inverse = _well_conditioned_inverse(held)
    if inverse is None:
        sizes, directions = np.linalg.eigh(held)
        measured = sizes > max(_FLAT * sizes[-1], _ROUNDING)
        halves = directions[:, measured] / np.sqrt(sizes[measured])
        inverse, flat = halves @ halves.T, directions[:, ~measured]
    inverse -= inverse.mean()  # added by `hold_constant`
    return inverse, flat


def _well_conditioned_inverse(matrix: Floats) -> Floats | None:
    """Return the inverse of a symmetric matrix, or None if a direction is nearly flat."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    size, inverse_size = (float(np.linalg.norm(m, 1)) for m in (matrix, inverse))
    if not (size * inverse_size < _WELL_CONDITIONED and inverse_size < _WELL_CONDITIONED):
        return None
    inverse += inverse.T
    inverse /= 2
    return np.asarray(inverse)


def _diagonal_errors(model: MeanPosterior, solution: Balance) -> tuple[Floats, Floats]:
    """Compute standard errors from diagonals only: many clusters hardly interact."""
    biased, mass = model.at(solution.biases), solution.moments.mass
    evidence, anchor = model.evidence, model.clusters.anchor
    expectation = _diagonal_expectation(biased, evidence, mass)
    scatter, squares = evidence.accumulate(partial(_scatter, biased, expectation)).values
    curvature = mass - squares
    variance = np.divide(np.maximum(scatter, 0.0), curvature**2, out=np.full_like(mass, np.inf), where=curvature > 0)
    against_anchor = variance + variance[anchor]
    against_anchor[anchor] = 0.0
    return np.sqrt(variance), np.sqrt(against_anchor)


def _diagonal_expectation(model: BiasedModel, evidence: Evidence, mass: Floats) -> _Expectation:
    """Return the expected posterior of each class for its own cluster only: the others are nearly 0."""
    if evidence.label_counts is None:
        return _Expectation(mass, np.ones(1))
    weight, sums = evidence.accumulate(partial(_own_sums, model)).values
    expected = np.divide(sums, weight, out=np.ones_like(sums), where=evidence.label_counts > 1)
    return _Expectation(expected, _unbiased(evidence.label_counts))


def _own_sums(model: BiasedModel, blocks: Iterable[Block]) -> Sums:
    """Sum the squared shares of each class's samples, and their products with the posterior of the class's cluster."""
    n_classes = len(model.cluster_of)
    sums = Sums((n_classes,), (n_classes,))
    for posterior, samples in model.posteriors(blocks):
        assert samples.labels is not None
        weights = model.squared_shares(samples)
        own = take_from_each(posterior, model.cluster_of[samples.labels])
        terms = (np.bincount(samples.labels, values, n_classes) for values in (weights, weights * own))
        sums.add(*(np.asarray(term, dtype=np.float64) for term in terms))
    return sums


def _scatter(model: BiasedModel, expectation: _Expectation, blocks: Iterable[Block]) -> Sums:
    """Sum the variance of each cluster's mass, and the mean square of its posterior."""
    sums = Sums(model.biases.shape, model.biases.shape)
    for posterior, samples in model.posteriors(blocks):
        weights = expectation.squared_shares(model, samples)
        residual = posterior if samples.labels is not None else posterior - like(expectation.posteriors, posterior)
        scatter = to_numpy(like(weights, residual) @ (residual * residual))
        if samples.labels is not None:
            clusters = model.cluster_of[samples.labels]
            own, expected = take_from_each(posterior, clusters), expectation.posteriors[samples.labels]
            scatter = scatter + np.bincount(clusters, weights * (expected - 2 * own) * expected, len(scatter))
        sums.add(scatter, to_numpy(like(model.shares(samples), posterior) @ (posterior * posterior)))
    return sums
