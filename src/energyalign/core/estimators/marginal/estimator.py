"""Shifts under which the mean posterior over the balanced evidence is itself balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.errors import some_of
from energyalign.core.estimators.base import Energies, Estimate, Estimator, refuse_clusters_without_evidence
from energyalign.core.estimators.marginal.balancing import balance
from energyalign.core.estimators.marginal.standard_errors import standard_errors
from energyalign.core.evidence import ONLY_ENERGIES, Evidence
from energyalign.core.mean_posterior import MeanPosterior

# In logits: an error of 1 is a factor of e in the prior.
MAX_STANDARD_ERROR = 1.0


@dataclass(frozen=True)
class Marginal(Estimator):
    r"""Biases :math:`b` with :math:`\frac1S \sum_s \mathrm{softmax}(f(x_s) + b)[k] = 1/C` for every class.

    On a balanced labelled sample these are the maximum-likelihood biases. A constant added to all logits of one sample
    changes nothing, so log-probabilities work as well as logits. No single sample can dominate a class, because a
    posterior is at most one.

    For another target prior :math:`p_t`, :math:`\log p_t` is added to these biases. The mean posterior is then
    :math:`p_t` over the samples re-weighted to the target, each by :math:`C\sum_k p_t(k)\,p(k|x_s)` under the balanced
    model. It is not :math:`p_t` over the balanced samples: if the classes are perfectly separable, that would force
    wrong predictions.

    Parameters
    ----------
    tolerance : float, default=1e-10
        Maximum difference between the mean posterior and its goal.
    """

    tolerance: float = 1e-10
    name: ClassVar[str] = "marginal"
    description: ClassVar[str] = "mean posterior over the sample made equal for all classes"
    reference: ClassVar[str] = "energyalign"

    def applies(self, evidence: Evidence) -> str | None:
        """Reject evidence without logits."""
        return None if evidence.accumulated is None else ONLY_ENERGIES

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Compute the biases that give every cluster its share of the mean posterior."""
        refuse_clusters_without_evidence(evidence, clusters)
        members = clusters.sizes(evidence.usable)
        model = MeanPosterior(evidence, clusters)
        solution = balance(model, members / members.sum(), self.tolerance)
        errors, shift_errors = standard_errors(model, solution)
        # A masked cluster follows the anchor, so that its shift is 0.
        in_play = members > 0
        biases = np.where(in_play, solution.biases, solution.biases[clusters.anchor])
        return Energies(-biases, np.where(in_play, errors, 0.0), np.where(in_play, shift_errors, 0.0))

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:
        """Name the classes whose shift has a large standard error."""
        loose = np.flatnonzero(~(estimate.standard_errors <= MAX_STANDARD_ERROR) & evidence.usable)
        if len(loose) == 0:
            return []
        order = loose[np.argsort(-estimate.standard_errors[loose])]
        return [
            f"the shift of {len(order)} of {evidence.n_classes} classes is uncertain by more than "
            f"{MAX_STANDARD_ERROR:g} ({some_of(evidence.names_of(order.tolist()))}): there are too few samples, or "
            "the model is too certain of them to show its bias. Give more evidence, or evidence it was not trained "
            "on, share shifts with clusters 'monotone', or use estimator 'prior'."
        ]
