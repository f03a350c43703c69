"""No correction: the raw model, as an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.estimators.base import Energies, Estimator
from energyalign.core.evidence import Evidence


@dataclass(frozen=True)
class NoCorrection(Estimator):
    """Zero shifts: treats all energies as equal."""

    name: ClassVar[str] = "none"
    description: ClassVar[str] = "the raw model"
    reads_evidence: ClassVar[bool] = False

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:  # noqa: ARG002
        """Return zeros."""
        zeros = np.zeros(clusters.n_clusters)
        return Energies(zeros, zeros, zeros)
