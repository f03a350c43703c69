"""The most probable biases and temperature of `shrunk`: Newton steps, and expectation maximisation for sigma."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.forks import cached_property
from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.shrunk.likelihood import LikelihoodPass
from energyalign.core.estimators.shrunk.prior import Prior
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import numbers_for_products

_LOG_TEMPERATURE_VARIANCE = 1.0  # prior of log s: N(0, 1)
DEVIATION = 0.5  # prior of sigma: inverse chi-squared around this,
_DEVIATION_WEIGHT = 2.0  # worth so many classes
_NO_DEVIATION = 1e-6  # variance of u where it is 0
_MAX_STEPS = 200
_MAX_HALVINGS = 30
_MAX_TEMPERATURE_STEP = 0.7  # largest change of log s
_FLOOR_TOLERANCE = 0.1  # in log s
_TOLERANCE = 1e-8  # Newton decrement, in units of the log posterior
_VARIANCE_TOLERANCE = 1e-2  # relative change of the variance of u in a step
_RELAXATION = 1.5  # of expectation maximisation, which converges for any value below 2
_MAX_DENSE = 1024  # clusters up to which the curvature is a matrix,
_ALWAYS_NEW = 128  # and up to which every step computes it anew
_FAST = 0.1  # where the decrement falls to this part or less in a step, the matrix serves for another one
_MAX_PRODUCTS = 1 << 31  # samples times clusters² in a pass
_MAX_NUMBERS = 1 << 23  # samples times classes in a pass
_MIN_PER_CLASS = 16  # samples kept where the evidence is thinned


class Posterior(NamedTuple):
    """Shifts per cluster with their covariance (a matrix, or its diagonal), and the parameters behind them."""

    shifts: Floats
    covariance: Floats
    log_temperature: float
    log_temperature_error: float
    slope: float
    slope_error: float
    variance: float
    likelihood: float
    curvature: Floats  # of the likelihood in the biases: a matrix, or its diagonal
    scale: float
    log_floor_scale: float
    transformed: bool = False

    @property
    def temperature(self) -> float:
        """What the logits are multiplied by."""
        return float(np.exp(self.log_temperature))


def fit_posterior(evidence: Evidence, clusters: Clusters) -> Posterior:
    """Fit the model that suits the evidence, as the docstring of `Shrunk` says; once per evidence and clusters."""
    known = evidence.estimated
    key = ("shrunk", clusters)
    if key not in known:
        known[key] = _fit(Problem(_part(evidence, clusters), clusters), evidence)
    result: Posterior = known[key]
    return result


def _fit(problem: Problem, evidence: Evidence) -> Posterior:
    if evidence.labels is None:
        return problem.solve(Free(temperature=False))
    found = problem.solve(Free())
    if evidence.kind != "training":
        return _with_floor_of_its_temperature(problem, found)
    # Training makes a model's confidence right on its own samples, or less than right, and never more.
    transformed = found.log_temperature + 2 * found.log_temperature_error < 0
    free = Free(temperature=False, deviations=not transformed)
    found = problem.solve(free)
    if found.slope < 0:
        held = problem.solve(replace(free, slope=False))
        found = _without_slope(held, problem.log_prior)._replace(slope=found.slope, slope_error=found.slope_error)
    return found._replace(transformed=transformed)


def _with_floor_of_its_temperature(problem: Problem, found: Posterior) -> Posterior:
    """Lower the floor to that of s f while the labels become more likely.

    A model that is far too sure was cut off where it still knows more. Below the floor of a model that has diverged
    there is nothing to know.
    """
    while found.log_temperature < problem.log_floor_scale - _FLOOR_TOLERANCE:
        problem.log_floor_scale = found.log_temperature
        lower = problem.solve(Free(), found.log_temperature)
        if lower.likelihood <= found.likelihood:
            break
        found = lower
    return found


def _without_slope(found: Posterior, direction: Floats) -> Posterior:
    """The nearest shifts that do not grow with the training counts."""
    unit = direction / max(float(np.linalg.norm(direction)), 1e-300)
    along = float(unit @ found.shifts)
    if along <= 0:
        return found
    covariance = found.covariance
    if covariance.ndim == 2:
        away = np.eye(len(unit)) - np.outer(unit, unit)
        covariance = away @ covariance @ away
    return found._replace(shifts=found.shifts - along * unit, covariance=covariance)


def _part(evidence: Evidence, clusters: Clusters) -> Evidence:
    """An even part of large evidence, each sample standing for those left out: it gives all digits that matter."""
    joint = clusters.n_clusters if clusters.n_clusters <= _MAX_DENSE else 1
    max_samples = min(_MAX_PRODUCTS // joint**2, _MAX_NUMBERS // evidence.n_classes)
    return thin_and_repeat(evidence, max(1, max_samples), min_per_class=_MIN_PER_CLASS)


@dataclass(frozen=True)
class Free:
    """Which parameters are estimated; the others are as they were at the start, tau = 0, u = 0."""

    temperature: bool = True
    slope: bool = True
    deviations: bool = True


class Point(NamedTuple):
    """Parameters and the log-likelihood there, with its slope and curvature."""

    log_temperature: float
    biases: Floats
    likelihood: float
    gradient: Floats  # of log s, then of the biases
    curvature: Floats  # (1 + clusters)², or its diagonal
    coupling: Floats  # the curvature between log s and the biases


class Problem:
    """The posterior of temperature and biases for one evidence and one set of clusters."""

    def __init__(self, evidence: Evidence, clusters: Clusters, log_floor_scale: float = 0.0) -> None:
        self.evidence, self.clusters, self.log_floor_scale = evidence, clusters, log_floor_scale
        self.dense = clusters.n_clusters <= _MAX_DENSE
        self.offsets = np.where(self._samples > 0, np.log(np.maximum(self._samples, 1e-300)), -np.inf)
        members = clusters.sizes(~evidence.masked)
        self.in_play = members > 0
        log_counts = np.zeros(evidence.n_classes) if evidence.counts is None else np.log(evidence.counts)
        means = clusters.sums(np.where(evidence.masked, 0.0, log_counts)) / np.maximum(members, 1.0)
        self.log_prior = np.where(self.in_play, means - means[self.in_play].mean(), 0.0)

    @cached_property
    def _class_weights(self) -> Floats:
        """The weight of a sample of each class: on training evidence a class has no more samples than images."""
        evidence = self.evidence
        if evidence.kind != "training" or evidence.counts is None or evidence.label_counts is None:
            return np.ones(evidence.n_classes)
        return np.minimum(1.0, evidence.counts / np.maximum(evidence.label_counts, 1e-300))

    @cached_property
    def _samples(self) -> Floats:
        """The number of samples of each class; without labels the evidence is balanced."""
        evidence = self.evidence
        if evidence.label_counts is None:
            in_play = ~evidence.masked
            return np.where(in_play, evidence.total_weight / max(int(in_play.sum()), 1), 0.0)
        return self._class_weights * evidence.label_counts

    def solve(self, free: Free, log_temperature: float = 0.0) -> Posterior:
        """The most probable parameters, with their covariance."""
        mean = -self.log_prior if free.slope else np.zeros(len(self.log_prior))
        prior = Prior(mean, self.log_prior if free.slope else None, DEVIATION**2 if free.deviations else _NO_DEVIATION)
        return self._posterior(*self.maximise(prior, free, log_temperature, mean), free)

    def maximise(self, prior: Prior, free: Free, log_temperature: float, biases: Floats) -> tuple[Point, Prior]:
        """Newton steps for the biases and the temperature, each followed by one for the variance of u."""
        point, last = self._at(log_temperature, biases), 0.0
        for _ in range(_MAX_STEPS):
            scale = self._case_control_scale(point)
            step, decrement = self._newton_step(point, prior, scale, free)
            converged = decrement <= _TOLERANCE
            reuses = len(biases) > _ALWAYS_NEW and self.dense and decrement <= _FAST * last and not converged
            point = self._search(point, step, prior, scale, point.curvature if reuses else None)
            new = prior.variance
            if free.deviations:
                new = self._next_variance(point, prior, scale, free)
            settled = abs(new - prior.variance) <= _VARIANCE_TOLERANCE * prior.variance
            if not settled:  # or the biases would follow its last digits for ever
                prior = replace(prior, variance=new)
            if converged and settled:
                return point, prior
            last = decrement
        raise EnergyAlignError(
            f"estimator 'shrunk' did not converge in {_MAX_STEPS} steps: give more evidence, or use estimator='prior'."
        )

    def _at(self, log_temperature: float, biases: Floats, curvature: Floats | None = None) -> Point:
        """The likelihood at these parameters; with the curvature of a point near by if that is given."""
        model = LikelihoodPass(
            np.exp(log_temperature), biases, self.clusters.indices, self.offsets, self._class_weights,
            self.depth, self.dense and curvature is None,
        )  # fmt: skip
        numbers = numbers_for_products(self.evidence.n_classes)
        log_partition, slope, products, mass, squares = self.evidence.accumulate(model.sums, numbers).values
        sums = self.clusters.sums(self._samples)
        likelihood = float(log_partition) + float(sums @ np.where(sums > 0, biases, 0.0))
        gradient = np.concatenate([[float(slope)], sums - mass])
        if not self.dense:
            curvature = np.concatenate([products[:1], mass - squares])
        elif curvature is None:
            curvature = np.empty((len(biases) + 1,) * 2)
            curvature[0], curvature[1:, 0] = products, products[1:]
            curvature[1:, 1:] = np.diag(mass) - squares
        return Point(log_temperature, biases, likelihood, gradient, curvature, products[1:])

    @property
    def depth(self) -> float:
        """How far below the largest of its sample a logit is floored."""
        numbers = self.evidence.total_weight * np.sum(~self.evidence.masked)
        return float(np.log(numbers) / np.exp(self.log_floor_scale))

    def _case_control_scale(self, point: Point) -> float:
        """How much more the likelihood knows of the biases than its curvature says, averaged over the clusters.

        Labels fix the number of samples of each class, so the variance of the biases is H⁻¹ - diag(1 / m), not H⁻¹.
        """
        if self.evidence.labels is None:
            return 1.0
        mass = self.clusters.sums(self._samples) - point.gradient[1:]  # m, where the slope is 0
        seen = mass > 0
        curvature = np.diag(point.curvature) if self.dense else point.curvature
        explained = float(np.sum(curvature[1:][seen] / mass[seen]))
        return float(seen.sum() / (seen.sum() - explained))

    def _objective(self, point: Point, prior: Prior, scale: float) -> float:
        temperature = point.log_temperature**2 / _LOG_TEMPERATURE_VARIANCE
        away = point.biases - prior.mean
        return scale * point.likelihood - 0.5 * (temperature + float(away @ prior.times(away)))

    def _newton_step(self, point: Point, prior: Prior, scale: float, free: Free) -> tuple[Floats, float]:
        """The step of log s and the biases, and how much of the log posterior it promises."""
        gradient = scale * point.gradient
        gradient[0] -= point.log_temperature / _LOG_TEMPERATURE_VARIANCE
        gradient[1:] -= prior.times(point.biases - prior.mean)
        if not free.temperature:
            gradient[0] = 0.0
        step = (
            self._inverse(point, prior, scale, free) @ gradient
            if self.dense
            else self._scaled(point, prior, scale, free, gradient)
        )
        decrement = float(gradient @ step)
        # The biases belong to the temperature: all of the step is shortened, or it might lead downhill.
        return step * min(1.0, _MAX_TEMPERATURE_STEP / max(abs(float(step[0])), 1e-300)), decrement

    def _inverse(self, point: Point, prior: Prior, scale: float, free: Free) -> Floats:
        """The covariance of log s and the biases."""
        precision = scale * point.curvature
        precision[1:, 1:] += prior.matrix
        precision[0, 0] += 1.0 / _LOG_TEMPERATURE_VARIANCE
        if not free.temperature:
            precision[0], precision[:, 0], precision[0, 0] = 0.0, 0.0, 1.0
        inverse = np.linalg.inv(precision)
        if not free.temperature:
            inverse[0, 0] = 0.0
        return np.asarray(inverse)

    def _scaled(self, point: Point, prior: Prior, scale: float, free: Free, gradient: Floats) -> Floats:
        """The step where the biases have only the diagonal of their curvature: so many clusters hardly touch."""
        own = scale * point.curvature[1:]
        biases = prior.solve_with(own, gradient[1:])
        if not free.temperature:
            return np.concatenate([[0.0], biases])
        stiffness, moved = self._stiffness(point, prior, scale)
        log_temperature = (gradient[0] - scale * float(point.coupling @ biases)) / stiffness
        return np.concatenate([[log_temperature], biases - log_temperature * moved])

    def _stiffness(self, point: Point, prior: Prior, scale: float) -> tuple[float, Floats]:
        """The precision of log s with the biases free, and how they move with it, from the diagonal of theirs."""
        coupling = scale * point.coupling
        moved = prior.solve_with(scale * point.curvature[1:], coupling)
        own = max(scale * float(point.curvature[0]) - float(coupling @ moved), 0.0)
        return 1.0 / _LOG_TEMPERATURE_VARIANCE + own, moved

    def _search(self, point: Point, step: Floats, prior: Prior, scale: float, curvature: Floats | None) -> Point:
        """The first of the halved steps that does not lower the posterior."""
        now = self._objective(point, prior, scale)
        rounding = 1e-12 * max(1.0, abs(now))
        for _ in range(_MAX_HALVINGS):
            trial = self._at(point.log_temperature + float(step[0]), point.biases + step[1:], curvature)
            if self._objective(trial, prior, scale) >= now - rounding:
                return trial
            step = step / 2
        return point

    def _next_variance(self, point: Point, prior: Prior, scale: float, free: Free) -> float:
        """The step of expectation maximisation for the variance of u."""
        if self.dense:
            covariance = self._inverse(point, prior, scale, free)[1:, 1:]
            uncertain = prior.uncertainty_of_deviations(covariance, np.diag(covariance))
        else:
            own = 1.0 / (scale * point.curvature[1:] + 1.0 / prior.variance)
            uncertain = prior.uncertainty_of_deviations(None, own)
        n_in_play = int(self.in_play.sum())
        uncertain -= (len(point.biases) - n_in_play) * prior.variance  # of what is out of play
        squares = float(np.sum(prior.deviations(point.biases) ** 2)) + uncertain
        new = (squares + _DEVIATION_WEIGHT * DEVIATION**2) / (n_in_play + _DEVIATION_WEIGHT)
        return float(prior.variance * (new / prior.variance) ** _RELAXATION)

    def _posterior(self, point: Point, prior: Prior, free: Free) -> Posterior:
        scale, temperature = self._case_control_scale(point), float(np.exp(point.log_temperature))
        shifts = point.biases / temperature
        if self.dense:
            joint = self._inverse(point, prior, scale, free)
            together = np.outer(joint[1:, 0] / temperature, shifts)
            covariance = joint[1:, 1:] / temperature**2 - together - together.T
            covariance += joint[0, 0] * np.outer(shifts, shifts)
            covariance[~self.in_play] = covariance[:, ~self.in_play] = 0.0
            of_biases, of_temperature = joint[1:, 1:], float(joint[0, 0])
        else:
            of_biases = 1.0 / (scale * point.curvature[1:] + 1.0 / prior.variance)
            of_temperature = 1.0 / self._stiffness(point, prior, scale)[0] if free.temperature else 0.0
            covariance = np.where(self.in_play, of_biases / temperature**2, 0.0)
        shifts = np.where(self.in_play, shifts, shifts[self.clusters.anchor])
        return Posterior(
            shifts, covariance, point.log_temperature, float(np.sqrt(of_temperature)), prior.slope(point.biases),
            prior.slope_error(of_biases), prior.variance, point.likelihood,
            point.curvature[1:, 1:] if self.dense else point.curvature[1:], scale, self.log_floor_scale,
        )  # fmt: skip
