"""Logit adjustment: the energies that the training counts predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.base import Energies
from energyalign.core.evidence import Evidence


@dataclass(frozen=True)
class Prior:
    r"""Shifts :math:`-\tau \log \pi_k`, with :math:`\pi` the label distribution of the training data.

    Looks at counts only. It is right when the model was trained to the end with plain cross-entropy, and
    it is the control that stands beside every measured estimate.

    References
    ----------
    Menon et al., Long-tail learning via logit adjustment, ICLR 2021.
    """

    tau: float = 1.0
    name: ClassVar[str] = "prior"

    def __post_init__(self) -> None:
        if not np.isfinite(self.tau):
            raise EnergyAlignError(f"tau must be a finite number, not {self.tau}.")

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        if evidence.counts is None:
            raise EnergyAlignError("estimator 'prior' needs the training counts per class: pass counts=...")
        log_prior = self.tau * np.log(evidence.counts / evidence.counts.sum())
        known = np.zeros(clusters.n_clusters)
        in_play = ~evidence.masked
        members = clusters.sizes(in_play)
        sums = clusters.sums(np.where(in_play, log_prior, 0.0))
        return Energies(np.divide(sums, members, out=known.copy(), where=members > 0), known, known)
