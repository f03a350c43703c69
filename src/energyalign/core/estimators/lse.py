"""The paper's estimator: free energies by Monte Carlo, equation (11) and its cluster form (12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.estimators.base import Energies, cluster_means
from energyalign.core.evidence import Evidence


@dataclass(frozen=True)
class Lse:
    r"""Log-sum-exp of the logits over the balanced sample, averaged over each cluster.

    .. math:: \alpha_j = \frac1{C_i}\sum_{k \in O_i} \mathrm{LSE}_s\, f(x_s)[k]
              - \frac1{C_j}\sum_{k \in O_j} \mathrm{LSE}_s\, f(x_s)[k]

    A Monte Carlo integral of :math:`e^f`: where logits are unbounded a handful of samples can carry it,
    which the effective sample size shows.

    References
    ----------
    Zhao et al., Energy Aligning for Biased Models, 2021.
    """

    name: ClassVar[str] = "lse"

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        free_energy = evidence.free_energy
        members = clusters.sizes(evidence.usable)
        squares = clusters.sums(np.where(evidence.usable, free_energy.standard_errors, 0.0) ** 2)
        shift_errors = free_energy.shift_standard_errors(clusters, evidence.usable)
        return Energies(
            values=cluster_means(free_energy.values, evidence, clusters),
            standard_errors=np.sqrt(squares) / np.maximum(members, 1.0),
            shift_standard_errors=np.where(members > 0, shift_errors, 0.0),
        )
