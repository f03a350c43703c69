"""Logit adjustment: the energies that the training counts predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from energyalign.core.checks import check_tau
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.base import Energies, Estimator
from energyalign.core.evidence import Evidence

_NEEDS_COUNTS = "estimator 'prior' needs the training counts per class: give counts."


@dataclass(frozen=True)
class Prior(Estimator):
    r"""Shifts :math:`-\tau \log \pi_k`, with :math:`\pi` the label distribution of the training data.

    It reads the training counts only. It is right for a model trained to convergence with plain cross-entropy, and is
    the baseline for every measured estimate.

    Parameters
    ----------
    tau : float, default=1.0
        Scale of the shifts.

    References
    ----------
    Menon et al., Long-tail learning via logit adjustment, ICLR 2021.
    """

    tau: float = 1.0
    name: ClassVar[str] = "prior"
    description: ClassVar[str] = "logit adjustment: -tau log of the training prior; counts only"
    reference: ClassVar[str] = "Menon et al. 2021"
    reads_evidence: ClassVar[bool] = False
    reads_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_tau(self.tau)

    @classmethod
    def make(cls, *, tau: float) -> Self:
        """Create the estimator with this scale."""
        return cls(tau)

    def applies(self, evidence: Evidence) -> str | None:
        """Reject evidence without training counts."""
        return _NEEDS_COUNTS if evidence.counts is None else None

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Average the log prior over each cluster; its standard errors are 0."""
        if evidence.counts is None:
            raise EnergyAlignError(_NEEDS_COUNTS)
        log_prior = self.tau * np.log(evidence.counts / evidence.counts.sum())
        in_play = ~evidence.masked
        sums, zeros = clusters.sums(np.where(in_play, log_prior, 0.0)), np.zeros(clusters.n_clusters)
        return Energies(sums / np.maximum(clusters.sizes(in_play), 1.0), zeros, zeros)
