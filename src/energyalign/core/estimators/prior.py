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

_NEEDS_COUNTS = "estimator 'prior' needs the training counts per class: pass counts=..."


@dataclass(frozen=True)
class Prior(Estimator):
    r"""Shifts :math:`-\tau \log \pi_k`, with :math:`\pi` the label distribution of the training data.

    Looks at counts only. It is right when the model was trained to the end with plain cross-entropy, and
    it is the control that stands beside every measured estimate.

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
        """Make it with this scale."""
        return cls(tau)

    def applies(self, evidence: Evidence) -> str | None:
        """Ask for the training counts."""
        return _NEEDS_COUNTS if evidence.counts is None else None

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Average the log prior over each cluster; nothing is uncertain about it."""
        if evidence.counts is None:
            raise EnergyAlignError(_NEEDS_COUNTS)
        log_prior = self.tau * np.log(evidence.counts / evidence.counts.sum())
        known = np.zeros(clusters.n_clusters)
        in_play = ~evidence.masked
        members = clusters.sizes(in_play)
        sums = clusters.sums(np.where(in_play, log_prior, 0.0))
        return Energies(np.divide(sums, members, out=known.copy(), where=members > 0), known, known)
