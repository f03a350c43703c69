"""Empirical Bayes: shifts that follow the training counts, and deviate from them where the labels demand it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.clusters import Clusters
from energyalign.core.estimators.base import Energies, Estimate, Estimator
from energyalign.core.estimators.shrunk.cross_fitting import shifts_without_folds
from energyalign.core.estimators.shrunk.posterior import DEVIATION, Free, Posterior, Problem
from energyalign.core.evidence import ONLY_ENERGIES, Evidence
from energyalign.core.sharing import Sharing, share_per_class

_MANY_SAMPLES = 2_000  # with this many samples, a fold hardly changes the temperature and the variance of u
_FLOOR_TOLERANCE = 0.1  # in log s


@dataclass(frozen=True)
class Shrunk(Estimator):
    r"""Biases :math:`b = -\tau \log \pi + u` with :math:`\tau \sim N(1, 1)`, :math:`u_k \sim N(0, \sigma^2)`.

    The labels have the case-control likelihood :math:`\mathrm{softmax}(s f + b + \log m)[y]`, where :math:`m_k` is the
    number of samples with label :math:`k`, and :math:`s` a temperature. The variance :math:`\sigma^2` maximises the
    marginal likelihood (Laplace approximation, expectation maximisation) under a prior with the weight of two classes.
    The shift is :math:`b / s`. A class without evidence gets the shift of its training count; with much evidence the
    shift is the maximum-likelihood bias.

    On training evidence the temperature measures how well the samples were memorised, so it is fixed at 1;
    :math:`\tau` cannot be negative; and a class counts no more samples than it has training images. If the samples are
    harder than the confidence of the model suggests (:math:`s < 1`), it was trained on them in an easier form, and
    :math:`u = 0`.

    See docs/theory.md for the derivation.
    """

    name: ClassVar[str] = "shrunk"
    description: ClassVar[str] = "empirical Bayes: the log prior, corrected per class where the labels demand it"
    reference: ClassVar[str] = "energyalign"
    reads_counts: ClassVar[bool] = True

    def applies(self, evidence: Evidence) -> str | None:
        """Reject training evidence that is harder for the model than its training data: its labels are misleading."""
        if evidence.accumulated is not None:
            return ONLY_ENERGIES
        if not fit_posterior(evidence, share_per_class(evidence)).transformed:
            return None
        return (
            "this training evidence is harder for the model than its training data (its logits would have to be "
            "scaled down), as augmented or mixed samples are. If the model was not trained on these samples, set the "
            "evidence to 'held-out'. Otherwise give held-out samples if you have some."
        )

    def sharings(self, evidence: Evidence) -> list[Sharing]:
        """Return only the sharing per class: the variance of u controls how much the classes share."""
        return [share_per_class(evidence)]

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Return the energies, which are minus the most probable shifts."""
        posterior = fit_posterior(evidence, clusters)
        covariance, anchor = posterior.covariance, clusters.anchor
        variance = np.diag(covariance) if covariance.ndim == 2 else covariance
        cross = covariance[anchor] if covariance.ndim == 2 else np.zeros(len(variance))
        against_anchor = np.maximum(variance + variance[anchor] - 2 * cross, 0.0)
        against_anchor[anchor] = 0.0
        return Energies(-posterior.shifts, np.sqrt(variance), np.sqrt(against_anchor))

    def leave_out(
        self, evidence: Evidence, sharing: Sharing, part: Evidence, folds: Ints
    ) -> list[tuple[Floats, float]]:
        """Refit only the biases if there are many samples; keep temperature and variance of u of the full fit."""
        if isinstance(sharing, str) or np.count_nonzero(part.occurrences) < _MANY_SAMPLES:
            return super().leave_out(evidence, sharing, part, folds)
        posterior = fit_posterior(evidence, sharing)
        return [
            (np.where(evidence.masked, 0.0, (shifts - shifts[sharing.anchor])[sharing.indices]), posterior.temperature)
            for shifts in shifts_without_folds(posterior, part, sharing, folds)
        ]

    def temperature(self, evidence: Evidence, clusters: Clusters) -> float:
        """Return the temperature of the fit."""
        return fit_posterior(evidence, clusters).temperature

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:
        """Report a bias that does not follow the counts, and the limits of training evidence."""
        posterior = fit_posterior(evidence, estimate.clusters)
        slope, error = posterior.slope, posterior.slope_error
        trained_on = evidence.kind == "training" and evidence.labels is not None
        reasons = []
        if slope + 2 * error < 0:
            reasons.append(
                f"the bias runs against the training counts (slope {slope:.1f} +- {error:.1f} on their logarithm; "
                "plain training has 1): are the counts in the order of the classes in the logits?"
            )
        if trained_on and evidence.counts is not None and np.ptp(evidence.counts) > 0 and abs(slope) < 2 * error:
            reasons.append(
                f"the model may have been balanced in training (slope {slope:.1f} +- {error:.1f} on the log counts, "
                "where plain training has 1), and training samples cannot show whether aligning helps it. Use held-out "
                "samples."
            )
        if trained_on and posterior.variance > DEVIATION**2:
            reasons.append(
                f"the classes deviate from their counts by {np.sqrt(posterior.variance):.1f} logits, as seen on "
                "training samples: check the result on held-out samples."
            )
        return reasons


def fit_posterior(evidence: Evidence, clusters: Clusters) -> Posterior:
    """Fit the model of `Shrunk`, once per evidence and clusters."""
    cache, key = evidence.estimated, ("shrunk", clusters)
    if key not in cache:
        cache[key] = _fit(Problem.thinned(evidence, clusters))
    posterior: Posterior = cache[key]
    return posterior


def _fit(problem: Problem) -> Posterior:
    """Fit the parameters that this kind of evidence can identify; see `Shrunk`."""
    if problem.evidence.labels is None:
        return problem.solve(Free(temperature=False))
    posterior = problem.solve(Free())
    if problem.evidence.kind != "training":
        return _lower_floor(problem, posterior)
    # After training, a model's confidence on its own samples is right or too low, never too high.
    transformed = posterior.log_temperature + 2 * posterior.log_temperature_error < 0
    free = Free(temperature=False, deviations=not transformed)
    posterior = problem.solve(free)
    if posterior.slope < 0:
        flat = _remove_slope(problem.solve(replace(free, slope=False)), problem.log_prior)
        posterior = flat._replace(slope=posterior.slope, slope_error=posterior.slope_error)
    return posterior._replace(transformed=transformed)


def _lower_floor(problem: Problem, posterior: Posterior) -> Posterior:
    """Lower the floor from the floor of f to the floor of s f, while this makes the labels more likely.

    Logits of an overconfident model are informative below the first floor; logits of a diverged model are not.
    """
    while posterior.log_temperature < posterior.log_floor_scale - _FLOOR_TOLERANCE:
        problem = Problem(problem.evidence, problem.clusters, posterior.log_temperature)
        lower = problem.solve(Free(), posterior.log_temperature)
        if lower.likelihood <= posterior.likelihood:
            break
        posterior = lower
    return posterior


def _remove_slope(posterior: Posterior, direction: Floats) -> Posterior:
    """Return the nearest shifts that do not grow with the training counts."""
    unit = direction / max(float(np.linalg.norm(direction)), 1e-300)
    along = float(unit @ posterior.shifts)
    if along <= 0:
        return posterior
    covariance = posterior.covariance
    if covariance.ndim == 2:
        projection = np.eye(len(unit)) - np.outer(unit, unit)
        covariance = projection @ covariance @ projection
    return posterior._replace(shifts=posterior.shifts - along * unit, covariance=covariance)
