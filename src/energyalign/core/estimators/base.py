"""What every estimator gives: one energy per cluster of classes, and how sure it is of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.core.evidence import Evidence


@dataclass(frozen=True, eq=False)
class Energies:
    """Negative free energies per cluster; only their differences matter.

    Attributes
    ----------
    values : array of shape (n_clusters,)
        The shift of a cluster is the value of the anchor cluster minus its own.
    standard_errors : array of shape (n_clusters,)
        Of each value.
    shift_standard_errors : array of shape (n_clusters,)
        Of each shift; 0 for the anchor. Smaller or larger than the errors of two values suggest, because
        the values come from the same samples.
    """

    values: Floats
    standard_errors: Floats
    shift_standard_errors: Floats


class Estimator(Protocol):
    """A way to measure the energies of classes."""

    @property
    def name(self) -> str: ...

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        """Energies of the clusters, estimated from the evidence."""
        ...


def refuse_clusters_without_evidence(evidence: Evidence, clusters: Clusters) -> None:
    """Raise if a cluster in play has no class whose energy can be estimated, or the anchor is masked."""
    members = clusters.sizes(evidence.usable)
    unseen = clusters.sums(evidence.unseen.astype(np.float64))
    lacking = (members == 0) & (unseen > 0)
    if lacking.any():
        classes = np.flatnonzero(lacking[clusters.indices] & evidence.unseen).tolist()
        raise EnergyAlignError(
            f"no evidence for class {some_of(evidence.names_of(classes))}: a shift of its own cannot be "
            "estimated. Add labelled samples of it, share shifts with clusters='monotone' or a number of "
            "clusters (both need counts), or use estimator='prior'."
        )
    if members[clusters.anchor] == 0:
        raise EnergyAlignError(
            "every class of the anchor cluster is masked (-inf) in all samples: choose another anchor."
        )


def cluster_means(per_class: Floats, evidence: Evidence, clusters: Clusters) -> Floats:
    """Mean over the usable classes of each cluster; a cluster that is masked altogether takes the anchor's."""
    refuse_clusters_without_evidence(evidence, clusters)
    members = clusters.sizes(evidence.usable)
    sums = clusters.sums(np.where(evidence.usable, per_class, 0.0))
    means = np.divide(sums, members, out=np.zeros(clusters.n_clusters), where=members > 0)
    return np.where(members > 0, means, means[clusters.anchor])
