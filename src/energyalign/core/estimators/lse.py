"""The paper's estimator: free energies by Monte Carlo, equation (11) and its cluster form (12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.errors import some_of
from energyalign.core.estimators.base import Energies, Estimate, Estimator, cluster_means
from energyalign.core.evidence import Evidence

# Below this, one or two samples decide a class. On CIFAR-100-LT the estimator still helped at 6 and harmed at 1.
MIN_EFFECTIVE_SAMPLES = 5.0


@dataclass(frozen=True)
class Lse(Estimator):
    r"""Log-sum-exp of the logits over the balanced sample, averaged over each cluster.

    .. math:: \alpha_j = \frac1{C_i}\sum_{k \in O_i} \mathrm{LSE}_s\, f(x_s)[k]
              - \frac1{C_j}\sum_{k \in O_j} \mathrm{LSE}_s\, f(x_s)[k]

    This is a Monte Carlo integral of :math:`e^f`. If logits are unbounded, a few samples can dominate it: then the
    effective sample size is small.

    References
    ----------
    Zhao et al., Energy Aligning for Biased Models, 2021.
    """

    name: ClassVar[str] = "lse"
    description: ClassVar[str] = "log-sum-exp of the logits over the sample, per class"
    reference: ClassVar[str] = "Zhao et al. 2021, eq. 11"

    def applies(self, evidence: Evidence) -> str | None:
        """Reject log-probabilities: softmax has removed what this estimator measures."""
        if not evidence.holds_log_probabilities:
            return None
        return (
            "these scores are log-probabilities: softmax has removed a constant per sample that estimator 'lse' needs. "
            "Give the logits before softmax, or use estimator 'marginal', which does not need it."
        )

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Average the free energies over each cluster."""
        free_energy = evidence.free_energy
        members = clusters.sizes(evidence.usable)
        squares = clusters.sums(np.where(evidence.usable, free_energy.standard_errors, 0.0) ** 2)
        shift_errors = free_energy.shift_standard_errors(clusters, evidence.usable)
        return Energies(
            values=cluster_means(free_energy.values, evidence, clusters),
            standard_errors=np.sqrt(squares) / np.maximum(members, 1.0),
            shift_standard_errors=np.where(members > 0, shift_errors, 0.0),
        )

    def doubts(self, estimate: Estimate, evidence: Evidence) -> list[str]:  # noqa: ARG002
        """Name the classes with a small effective sample size."""
        effective = evidence.free_energy.effective_samples
        thin = np.flatnonzero((effective < MIN_EFFECTIVE_SAMPLES) & evidence.usable)
        if len(thin) == 0:
            return []
        order = thin[np.argsort(effective[thin])]
        return [
            f"the energy of {len(order)} of {evidence.n_classes} classes rests on fewer than "
            f"{MIN_EFFECTIVE_SAMPLES:g} effective samples ({some_of(evidence.names_of(order.tolist()))}; the smallest "
            f"is {effective[order[0]]:.1f} of {evidence.free_energy.n_samples:,.0f}): a few samples with large logits "
            "decide the shift. Use estimator 'marginal' or 'auto', or give more evidence."
        ]
