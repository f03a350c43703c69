"""Maximum a posteriori fit of `shrunk`: Newton steps for biases and temperature, expectation maximisation for sigma."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from energyalign.core._engine.forks import cached_property
from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.shrunk.likelihood import LikelihoodPass
from energyalign.core.estimators.shrunk.prior import BiasPrior
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import numbers_for_products

_LOG_TEMPERATURE_VARIANCE = 1.0  # prior of log s: N(0, 1)
DEVIATION = 0.5  # prior of sigma: inverse chi-squared around this value
_DEVIATION_WEIGHT = 2.0  # weight of this prior, in classes
_NO_DEVIATION = 1e-6  # smaller variances of u count as u = 0
_MAX_STEPS = 200
_MAX_HALVINGS = 30
_MAX_TEMPERATURE_STEP = 0.7  # change of log s
_TOLERANCE = 1e-8  # Newton decrement, in units of the log posterior
_VARIANCE_TOLERANCE = 1e-2  # relative change of the variance of u in one step
_RELAXATION = 1.5  # factor of a step of expectation maximisation, which converges for any factor below 2
_MAX_DENSE = 1024  # clusters; with more, only the diagonal of the curvature matrix is computed
_MAX_ALWAYS_NEW = 128  # clusters; with more, a step may reuse the curvature matrix of the last one,
_FAST = 0.1  # if the decrement has fallen to this fraction or less
_MAX_PRODUCTS = 1 << 31  # samples times clusters² in a pass
_MAX_NUMBERS = 1 << 23  # samples times classes in a pass
_MIN_PER_CLASS = 16  # samples that thinning keeps


class Posterior(NamedTuple):
    """Shifts per cluster with their covariance, and the parameters of the fit.

    `covariance` (of the shifts) and `curvature` (of the likelihood by the biases) are matrices, or their diagonals for
    more than `_MAX_DENSE` clusters.
    """

    shifts: Floats
    covariance: Floats
    log_temperature: float
    log_temperature_error: float
    slope: float  # tau
    slope_error: float
    variance: float  # of u
    likelihood: float
    curvature: Floats
    scale: float
    log_floor_scale: float
    transformed: bool = False  # whether the samples are harder for the model than its training samples

    @property
    def temperature(self) -> float:
        """Factor of the logits."""
        return float(np.exp(self.log_temperature))


@dataclass(frozen=True)
class Free:
    """Which parameters are estimated. The others keep their initial values: the given temperature, tau = 0, u = 0."""

    temperature: bool = True
    slope: bool = True
    deviations: bool = True


class Point(NamedTuple):
    """Parameters with their log-likelihood and its derivatives."""

    log_temperature: float
    biases: Floats
    likelihood: float
    gradient: Floats  # by log s and the biases
    curvature: Floats  # minus the second derivatives: a matrix of shape (1 + n_clusters)², or its diagonal
    coupling: Floats  # the row of log s, without its diagonal element


class Problem:
    """The posterior of temperature and biases for one evidence and one set of clusters.

    Logits are clipped at a floor that is log(n_samples * n_classes) / exp(`log_floor_scale`) below the largest.
    """

    def __init__(self, evidence: Evidence, clusters: Clusters, log_floor_scale: float = 0.0) -> None:
        self.evidence, self.clusters, self.log_floor_scale = evidence, clusters, log_floor_scale
        self.dense = clusters.n_clusters <= _MAX_DENSE
        self.offsets = np.where(self._samples > 0, np.log(np.maximum(self._samples, 1e-300)), -np.inf)
        members = clusters.sizes(~evidence.masked)
        self.in_play = members > 0
        log_counts = np.zeros(evidence.n_classes) if evidence.counts is None else np.log(evidence.counts)
        means = clusters.sums(np.where(evidence.masked, 0.0, log_counts)) / np.maximum(members, 1.0)
        self.log_prior = np.where(self.in_play, means - means[self.in_play].mean(), 0.0)

    @classmethod
    def thinned(cls, evidence: Evidence, clusters: Clusters) -> Self:
        """Create the problem for an evenly thinned part of large evidence, which is precise enough."""
        joint = clusters.n_clusters if clusters.n_clusters <= _MAX_DENSE else 1
        max_samples = min(_MAX_PRODUCTS // joint**2, _MAX_NUMBERS // evidence.n_classes)
        return cls(thin_and_repeat(evidence, max(1, max_samples), min_per_class=_MIN_PER_CLASS), clusters)

    @cached_property
    def _class_weights(self) -> Floats:
        """Weight of a sample of each class: training evidence counts no more samples than the class has images."""
        evidence = self.evidence
        if evidence.kind != "training" or evidence.counts is None or evidence.label_counts is None:
            return np.ones(evidence.n_classes)
        return np.minimum(1.0, evidence.counts / np.maximum(evidence.label_counts, 1e-100))

    @cached_property
    def _samples(self) -> Floats:
        """Number of samples of each class; evidence without labels counts as balanced."""
        evidence = self.evidence
        if evidence.label_counts is None:
            in_play = ~evidence.masked
            return np.where(in_play, evidence.total_weight / max(int(in_play.sum()), 1), 0.0)
        return self._class_weights * evidence.label_counts

    @property
    def depth(self) -> float:
        """Distance of the floor from the largest logit of a sample."""
        numbers = self.evidence.total_weight * np.sum(~self.evidence.masked)
        return float(np.log(numbers) / np.exp(self.log_floor_scale))

    def solve(self, free: Free, log_temperature: float = 0.0) -> Posterior:
        """Return the most probable parameters, with their covariance."""
        mean = -self.log_prior if free.slope else np.zeros(len(self.log_prior))
        variance = DEVIATION**2 if free.deviations else _NO_DEVIATION
        prior = BiasPrior(mean, self.log_prior if free.slope else None, variance)
        return self._summarise(*self._maximise(prior, free, log_temperature), free)

    def _maximise(self, prior: BiasPrior, free: Free, log_temperature: float) -> tuple[Point, BiasPrior]:
        """Alternate Newton steps of biases and temperature with updates of the variance of u."""
        point, last = self._evaluate(log_temperature, prior.mean), 0.0
        for _ in range(_MAX_STEPS):
            scale = self._case_control_scale(point)
            step, decrement = self._newton_step(point, prior, scale, free)
            converged = decrement <= _TOLERANCE
            large = self.dense and len(prior.mean) > _MAX_ALWAYS_NEW
            reuse = large and decrement <= _FAST * last and not converged
            point = self._search(point, step, prior, scale, point.curvature if reuse else None)
            variance = self._next_variance(point, prior, scale, free) if free.deviations else prior.variance
            settled = abs(variance - prior.variance) <= _VARIANCE_TOLERANCE * prior.variance
            if not settled:  # ignore small updates: the biases would never settle
                prior = replace(prior, variance=variance)
            if converged and settled:
                return point, prior
            last = decrement
        raise EnergyAlignError(
            f"estimator 'shrunk' did not converge in {_MAX_STEPS} steps: give more evidence, or use estimator 'prior'."
        )

    def _evaluate(self, log_temperature: float, biases: Floats, curvature: Floats | None = None) -> Point:
        """Compute the likelihood in one pass over the evidence. A `curvature` from a point nearby is reused."""
        model = LikelihoodPass(
            np.exp(log_temperature), biases, self.clusters.indices, self.offsets, self._class_weights,
            self.depth, self.dense and curvature is None,
        )  # fmt: skip
        numbers = numbers_for_products(self.evidence.n_classes)
        log_partition, slope, row, mass, products = self.evidence.accumulate(model.sums, numbers).values
        samples = self.clusters.sums(self._samples)
        likelihood = float(log_partition) + float(samples @ np.where(samples > 0, biases, 0.0))
        gradient = np.concatenate([[float(slope)], samples - mass])
        if not self.dense:
            curvature = np.concatenate([row[:1], mass - products])
        elif curvature is None:
            curvature = np.empty((len(biases) + 1,) * 2)
            curvature[0], curvature[1:, 0] = row, row[1:]
            curvature[1:, 1:] = np.diag(mass) - products
        return Point(log_temperature, biases, likelihood, gradient, curvature, row[1:])

    def _case_control_scale(self, point: Point) -> float:
        """Return the factor by which the likelihood is more informative than its curvature H, averaged over clusters.

        Labels fix the number of samples of each class, so the covariance of the biases is H⁻¹ - diag(1 / m), not H⁻¹.
        """
        if self.evidence.labels is None:
            return 1.0
        mass = self.clusters.sums(self._samples) - point.gradient[1:]  # m, where the gradient is 0
        seen = mass > 0
        curvature = np.diag(point.curvature) if self.dense else point.curvature
        explained = float(np.sum(curvature[1:][seen] / mass[seen]))
        return float(seen.sum() / (seen.sum() - explained))

    def _objective(self, point: Point, prior: BiasPrior, scale: float) -> float:
        """Return the log posterior, up to a constant."""
        temperature = point.log_temperature**2 / _LOG_TEMPERATURE_VARIANCE
        away = point.biases - prior.mean
        return scale * point.likelihood - 0.5 * (temperature + float(away @ prior.times(away)))

    def _newton_step(self, point: Point, prior: BiasPrior, scale: float, free: Free) -> tuple[Floats, float]:
        """Return the step of log s and the biases, and its decrement: the gain in log posterior that it predicts."""
        gradient = scale * point.gradient
        gradient[0] -= point.log_temperature / _LOG_TEMPERATURE_VARIANCE
        gradient[1:] -= prior.times(point.biases - prior.mean)
        if not free.temperature:
            gradient[0] = 0.0
        if self.dense:
            step = self._covariance(point, prior, scale, free) @ gradient
        else:
            step = self._diagonal_step(point, prior, scale, free, gradient)
        decrement = float(gradient @ step)
        # Shorten the whole step, not only its change of log s: the other changes depend on it and could lead downhill.
        return step * min(1.0, _MAX_TEMPERATURE_STEP / max(abs(float(step[0])), 1e-300)), decrement

    def _covariance(self, point: Point, prior: BiasPrior, scale: float, free: Free) -> Floats:
        """Return the covariance of log s and the biases."""
        precision = scale * point.curvature
        precision[1:, 1:] += prior.precision
        precision[0, 0] += 1.0 / _LOG_TEMPERATURE_VARIANCE
        if not free.temperature:
            precision[0], precision[:, 0], precision[0, 0] = 0.0, 0.0, 1.0
        covariance = np.linalg.inv(precision)
        if not free.temperature:
            covariance[0, 0] = 0.0
        return np.asarray(covariance)

    def _diagonal_variances(self, point: Point, prior: BiasPrior, scale: float) -> Floats:
        """Return the variances of the biases, from the diagonal of their curvature: they hardly interact."""
        return 1.0 / (scale * point.curvature[1:] + 1.0 / prior.variance)

    def _diagonal_step(self, point: Point, prior: BiasPrior, scale: float, free: Free, gradient: Floats) -> Floats:
        """Return the Newton step, from the diagonal of the curvature of the biases."""
        biases = prior.solve(scale * point.curvature[1:], gradient[1:])
        if not free.temperature:
            return np.concatenate([[0.0], biases])
        precision, response = self._temperature_precision(point, prior, scale)
        log_temperature = (gradient[0] - scale * float(point.coupling @ biases)) / precision
        return np.concatenate([[log_temperature], biases - log_temperature * response])

    def _temperature_precision(self, point: Point, prior: BiasPrior, scale: float) -> tuple[float, Floats]:
        """Return the precision of log s with free biases, and minus the derivative of the biases by log s."""
        coupling = scale * point.coupling
        response = prior.solve(scale * point.curvature[1:], coupling)
        own = max(scale * float(point.curvature[0]) - float(coupling @ response), 0.0)
        return 1.0 / _LOG_TEMPERATURE_VARIANCE + own, response

    def _search(self, point: Point, step: Floats, prior: BiasPrior, scale: float, curvature: Floats | None) -> Point:
        """Halve the step until it does not lower the posterior; return the point reached."""
        start = self._objective(point, prior, scale)
        rounding = 1e-12 * max(1.0, abs(start))
        for _ in range(_MAX_HALVINGS):
            trial = self._evaluate(point.log_temperature + float(step[0]), point.biases + step[1:], curvature)
            if self._objective(trial, prior, scale) >= start - rounding:
                return trial
            step = step / 2
        return point

    def _next_variance(self, point: Point, prior: BiasPrior, scale: float, free: Free) -> float:
        """Update the variance of u by one step of expectation maximisation."""
        if self.dense:
            covariance = self._covariance(point, prior, scale, free)[1:, 1:]
        else:
            covariance = self._diagonal_variances(point, prior, scale)
        n_in_play = int(self.in_play.sum())
        out_of_play = (len(point.biases) - n_in_play) * prior.variance
        uncertainty = prior.trace_of_deviations(covariance) - out_of_play
        squares = float(np.sum(prior.deviations(point.biases) ** 2)) + uncertainty
        variance = (squares + _DEVIATION_WEIGHT * DEVIATION**2) / (n_in_play + _DEVIATION_WEIGHT)
        return float(prior.variance * (variance / prior.variance) ** _RELAXATION)

    def _summarise(self, point: Point, prior: BiasPrior, free: Free) -> Posterior:
        """Return the shifts b / s, with their covariance by the delta method."""
        scale, temperature = self._case_control_scale(point), float(np.exp(point.log_temperature))
        shifts = point.biases / temperature
        if self.dense:
            joint = self._covariance(point, prior, scale, free)
            cross = np.outer(joint[1:, 0] / temperature, shifts)
            covariance = joint[1:, 1:] / temperature**2 - cross - cross.T
            covariance += joint[0, 0] * np.outer(shifts, shifts)
            covariance[~self.in_play] = covariance[:, ~self.in_play] = 0.0
            bias_covariance, temperature_variance = joint[1:, 1:], float(joint[0, 0])
        else:
            bias_covariance = self._diagonal_variances(point, prior, scale)
            precision, _ = self._temperature_precision(point, prior, scale)
            temperature_variance = 1.0 / precision if free.temperature else 0.0
            covariance = np.where(self.in_play, bias_covariance / temperature**2, 0.0)
        return Posterior(
            shifts=np.where(self.in_play, shifts, shifts[self.clusters.anchor]),
            covariance=covariance,
            log_temperature=point.log_temperature,
            log_temperature_error=float(np.sqrt(temperature_variance)),
            slope=prior.slope(point.biases),
            slope_error=prior.slope_error(bias_covariance),
            variance=prior.variance,
            likelihood=point.likelihood,
            curvature=point.curvature[1:, 1:] if self.dense else point.curvature[1:],
            scale=scale,
            log_floor_scale=self.log_floor_scale,
        )
