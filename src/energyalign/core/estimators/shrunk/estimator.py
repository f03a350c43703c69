"""Empirical Bayes: shifts that follow the training counts, and leave them as far as the labels say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.clusters import Clusters
from energyalign.core.estimators.base import Energies, Estimate, Estimator
from energyalign.core.estimators.shrunk.cross_fitting import shifts_without_folds
from energyalign.core.estimators.shrunk.posterior import DEVIATION, fit_posterior
from energyalign.core.evidence import ONLY_ENERGIES, Evidence
from energyalign.core.sharing import Sharing, share_per_class

_MANY_SAMPLES = 2_000  # a fold of so many does not change two numbers that all samples share


@dataclass(frozen=True)
class Shrunk(Estimator):
    r"""Biases :math:`b = -\tau \log \pi + u` with :math:`\tau \sim N(1, 1)`, :math:`u_k \sim N(0, \sigma^2)`.

    The labels have the case-control likelihood :math:`\mathrm{softmax}(s f + b + \log m)[y]`, where :math:`m_k` is the
    number of samples with label :math:`k`, and :math:`s` a temperature. The variance :math:`\sigma^2` maximises the
    evidence (Laplace's approximation, expectation maximisation) under a prior that is worth two classes. The shift is
    :math:`b / s`. Without evidence of a class its shift is what its count says; with much evidence it is the
    maximum-likelihood bias.

    On training evidence the temperature tells how well the samples were memorised, so it is held at 1; :math:`\tau`
    cannot be negative; and a class has no more samples than it has training images. Samples that look harder than the
    model's own confidence (:math:`s < 1`) were not trained on as they are: there :math:`u = 0`.

    See docs/theory.md for the derivation.
    """

    name: ClassVar[str] = "shrunk"
    description: ClassVar[str] = "empirical Bayes: the log prior, and per class as far as the labels say so"
    reference: ClassVar[str] = "energyalign"
    reads_counts: ClassVar[bool] = True

    def applies(self, evidence: Evidence) -> str | None:
        """Refuse training evidence that is harder for the model than its training data: its labels mislead."""
        if evidence.accumulated is not None:
            return ONLY_ENERGIES
        if not fit_posterior(evidence, share_per_class(evidence)).transformed:
            return None
        return (
            "this training evidence is harder for the model than its training data (the best temperature is below 1), "
            "as strongly augmented images are. Held-out samples would serve better."
        )

    def sharings(self, evidence: Evidence) -> list[Sharing]:
        """Only per class: the variance of u decides how much the classes share."""
        return [share_per_class(evidence)]

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Maximise the posterior of the biases, and the evidence of the variance of u."""
        posterior = fit_posterior(evidence, clusters)
        shifts, covariance = posterior.shifts, posterior.covariance
        variance = np.diag(covariance) if covariance.ndim == 2 else covariance
        anchor = clusters.anchor
        cross = covariance[anchor] if covariance.ndim == 2 else np.zeros(len(shifts))
        against = np.maximum(variance + variance[anchor] - 2 * cross, 0.0)
        against[anchor] = 0.0
        return Energies(-shifts, np.sqrt(variance), np.sqrt(against))

    def leave_out(
        self, evidence: Evidence, sharing: Sharing, part: Evidence, folds: Ints
    ) -> list[tuple[Floats, float]]:
        """Fit the biases again, with the temperature and the variance of u that all samples have, if they are many."""
        if isinstance(sharing, str) or np.count_nonzero(part.occurrences) < _MANY_SAMPLES:
            return super().leave_out(evidence, sharing, part, folds)
        found = fit_posterior(evidence, sharing)
        return [
            (np.where(evidence.masked, 0.0, (shifts - shifts[sharing.anchor])[sharing.indices]), found.temperature)
            for shifts in shifts_without_folds(found, part, sharing, folds)
        ]

    def temperature(self, evidence: Evidence, clusters: Clusters) -> float:
        """Return the temperature of the fit."""
        return fit_posterior(evidence, clusters).temperature

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:
        """Say where the bias does not follow the counts, and where training evidence cannot show it."""
        found = fit_posterior(evidence, estimate.clusters)
        trained_on = evidence.kind == "training" and evidence.labels is not None
        return [
            sentence
            for holds, sentence in (
                (
                    found.slope + 2 * found.slope_error < 0,
                    f"the bias runs against the training counts (slope {found.slope:.1f} +- "
                    f"{found.slope_error:.1f} on their logarithm; plain training has 1): are the counts in the order "
                    "of the classes in the logits?",
                ),
                (
                    trained_on and _differ(evidence.counts) and abs(found.slope) < 2 * found.slope_error,
                    f"the model may have been balanced in training (slope {found.slope:.1f} +- "
                    f"{found.slope_error:.1f} on the log counts, where plain training has 1), and training samples "
                    "cannot show whether aligning helps it. Use held-out samples.",
                ),
                (
                    trained_on and found.variance > DEVIATION**2,
                    f"the classes deviate from their counts by {np.sqrt(found.variance):.1f} logits, as seen on "
                    "training samples: check the result on held-out samples.",
                ),
            )
            if holds
        ]


def _differ(counts: Floats | None) -> bool:
    return counts is not None and bool(np.ptp(counts) > 0)
