"""Standard errors of balancing biases: how far they would move with another sample."""

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

_FLAT = 1e-12  # curvature relative to the largest, and
_ROUNDING = 1e-15  # in itself (it is a difference of masses), below which there is none
_APART = 1e-6
_WELL_CONDITIONED = 1e8  # far from the bounds above
_CANCELS_LITTLE = 1e5  # its square is what a covariance loses between two inverses

# Above this many clusters only the diagonal of their curvature is looked at.
_MAX_JOINT = 1024
# Standard errors use at most so many samples times clusters², and at least so many samples of each class.
_MAX_PRODUCTS = 1 << 33
_MIN_FOR_ERRORS = 12


def standard_errors(model: MeanPosterior, solution: Balance) -> tuple[Floats, Floats]:
    """Compute the standard error of each bias, and of its difference to the anchor's."""
    if model.clusters.n_clusters <= _MAX_JOINT:
        return _joint_errors(model, solution)
    return _separate_errors(model, solution, model.clusters.anchor)


def _joint_errors(model: MeanPosterior, solution: Balance) -> tuple[Floats, Floats]:
    """Sandwich standard errors: curvature⁻¹ · covariance of the mass · curvature⁻¹."""
    # The work grows with the square of the clusters: a part of the samples gives all digits that matter.
    max_samples = max(1, _MAX_PRODUCTS // model.clusters.n_clusters**2)
    part = thin_and_repeat(model.evidence, max_samples, min_per_class=_MIN_FOR_ERRORS)
    biases, moments, anchor = solution.biases, solution.moments, model.clusters.anchor
    if part is not model.evidence:
        model = MeanPosterior(part, model.clusters)
        moments = model.moments(biases, curvature=True)
    elif moments.curvature is None:
        moments = model.moments(biases, curvature=True)
    assert moments.curvature is not None
    inverse, flat = _invert(moments.curvature)
    sizes = [float(np.linalg.norm(matrix, 1)) for matrix in (moments.curvature, inverse)]
    if part.labels is None and sizes[0] * sizes[1] < _CANCELS_LITTLE:
        variance, against_anchor = _known_variances(moments, inverse, anchor, part.total_weight)
    else:
        biased = model.at(biases)
        chance = _joint_chance(biased, part, moments.mass)
        variance, against_anchor = part.accumulate(partial(_variances, biased, chance, inverse, anchor)).values
    # Along a flat direction the evidence says nothing: classes that lie apart in it have unknown shifts.
    variance[np.any(np.abs(flat) > _APART, axis=1)] = np.inf
    against_anchor[np.any(np.abs(flat - flat[anchor]) > _APART, axis=1)] = np.inf
    return np.sqrt(variance), np.sqrt(against_anchor)


def _known_variances(moments: Moments, inverse: Floats, anchor: int, total_weight: float) -> tuple[Floats, Floats]:
    """Do the same as `_variances` without labels, from moments that are known already."""
    assert moments.curvature is not None
    # H⁻¹ (D - H - m mᵀ) H⁻¹ with the masses m and their diagonal D, of which only one row is needed as a whole.
    moved, drift = inverse * moments.mass, inverse @ moments.mass
    variance = np.maximum(np.einsum("ij,ij->i", moved, inverse) - np.diag(inverse) - drift**2, 0.0)
    with_anchor = moved[anchor] @ inverse - inverse[anchor] - drift[anchor] * drift
    against_anchor = np.maximum(variance + variance[anchor] - 2 * with_anchor, 0.0)
    against_anchor[anchor] = 0.0
    return variance / total_weight, against_anchor / total_weight


class _Chance(NamedTuple):
    """What of a posterior is not chance: its expectation for each class, and the factor that makes squares unbiased.

    Labels fix the number of samples of each class, so that only the variance within classes counts (case-control). A
    single sample does not show it: there the truth is what is expected. Without labels the mass is, for all samples.
    """

    expected: Floats
    factors: Floats

    def squared_shares(self, model: BiasedModel, samples: Block) -> Floats:
        factors = self.factors[0] if samples.labels is None else self.factors[samples.labels]
        return factors * model.squared_shares(samples)


def _joint_chance(model: BiasedModel, evidence: Evidence, mass: Floats) -> _Chance:
    if evidence.label_counts is None:
        return _Chance(mass[None, :], np.ones(1))
    weight, sums = evidence.accumulate(partial(_sums_by_class, model)).values
    several = evidence.label_counts > 1
    expected = np.eye(len(mass))[model.cluster_of]
    expected[several] = sums[several] / weight[several, None]
    return _Chance(expected, _unbiased(evidence.label_counts))


def _unbiased(samples: Floats) -> Floats:
    """n / (n - 1) for classes of several samples."""
    return np.where(samples > 1, samples / np.maximum(samples - 1, 1e-300), 1.0)


def _sums_by_class(model: BiasedModel, blocks: Iterable[Block]) -> Sums:
    """The squared shares of the samples of each class, and their sums with the posteriors."""
    n_classes = len(model.cluster_of)
    sums = Sums((n_classes,), (n_classes, len(model.biases)))
    for posterior, samples in model.posteriors(blocks):
        assert samples.labels is not None
        weights = np.zeros((n_classes, len(samples.labels)))  # and no identity matrix: there may be 8,142 classes
        weights[samples.labels, np.arange(len(samples.labels))] = model.squared_shares(samples)
        sums.add(weights.sum(axis=1), to_numpy(like(weights, posterior) @ posterior))
    return sums


def _variances(model: BiasedModel, chance: _Chance, inverse: Floats, anchor: int, blocks: Iterable[Block]) -> Sums:
    """Of each bias, and of its difference to the anchor's."""
    sums = Sums(model.biases.shape, model.biases.shape)
    # Sample by sample and not from a covariance matrix: what cancels does so before it is squared.
    for posterior, samples in model.posteriors(blocks):
        expected = chance.expected if samples.labels is None else chance.expected[samples.labels]
        weights = like(chance.squared_shares(model, samples), posterior)
        moved = (posterior - like(expected, posterior)) @ like(inverse, posterior)
        sums.add(to_numpy(weights @ moved**2), to_numpy(weights @ (moved - moved[:, anchor : anchor + 1]) ** 2))
    return sums


def _invert(curvature: Floats) -> tuple[Floats, Floats]:
    """The inverse of the curvature but for the constant, which it leaves free, and its flat directions as columns."""
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
    inverse -= inverse.mean()  # what `hold_constant` added
    return inverse, flat


def _well_conditioned_inverse(matrix: Floats) -> Floats | None:
    """The inverse of a symmetric matrix that has no direction anywhere near to flat, or None."""
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


def _separate_errors(model: MeanPosterior, solution: Balance, anchor: int) -> tuple[Floats, Floats]:
    """The same with the diagonals alone, for so many clusters that they hardly touch one another."""
    biased, mass, evidence = model.at(solution.biases), solution.moments.mass, model.evidence
    chance = _separate_chance(biased, evidence, mass)
    scatter, squares = evidence.accumulate(partial(_scatter, biased, chance)).values
    curvature = mass - squares
    variance = np.divide(np.maximum(scatter, 0.0), curvature**2, out=np.full_like(mass, np.inf), where=curvature > 0)
    against_anchor = variance + variance[anchor]
    against_anchor[anchor] = 0.0
    return np.sqrt(variance), np.sqrt(against_anchor)


def _separate_chance(model: BiasedModel, evidence: Evidence, mass: Floats) -> _Chance:
    """The same, but for each class only the posterior of its own cluster: that of another is nearly nothing."""
    if evidence.label_counts is None:
        return _Chance(mass, np.ones(1))
    weight, sums = evidence.accumulate(partial(_own_sums, model)).values
    several = evidence.label_counts > 1
    return _Chance(np.divide(sums, weight, out=np.ones_like(sums), where=several), _unbiased(evidence.label_counts))


def _own_sums(model: BiasedModel, blocks: Iterable[Block]) -> Sums:
    """The squared shares of the samples of each class, and their sum with the posterior of its own cluster."""
    n_classes = len(model.cluster_of)
    sums = Sums((n_classes,), (n_classes,))
    for posterior, samples in model.posteriors(blocks):
        assert samples.labels is not None
        weights = model.squared_shares(samples)
        own = take_from_each(posterior, model.cluster_of[samples.labels])
        terms = (np.bincount(samples.labels, values, n_classes) for values in (weights, weights * own))
        sums.add(*(np.asarray(term, dtype=np.float64) for term in terms))
    return sums


def _scatter(model: BiasedModel, chance: _Chance, blocks: Iterable[Block]) -> Sums:
    """The variance of each cluster's mass, and the mean square of its posterior."""
    sums = Sums(model.biases.shape, model.biases.shape)
    for posterior, samples in model.posteriors(blocks):
        weights = chance.squared_shares(model, samples)
        residual = posterior if samples.labels is not None else posterior - like(chance.expected, posterior)
        scatter = to_numpy(like(weights, residual) @ (residual * residual))
        if samples.labels is not None:
            clusters = model.cluster_of[samples.labels]
            own, expected = take_from_each(posterior, clusters), chance.expected[samples.labels]
            scatter = scatter + np.bincount(clusters, weights * (expected - 2 * own) * expected, len(scatter))
        sums.add(scatter, to_numpy(like(model.shares(samples), posterior) @ (posterior * posterior)))
    return sums
