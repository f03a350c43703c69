"""One estimator with one way of sharing: balanced shifts per class, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import Energies, Estimator
from energyalign.core.evidence import Evidence
from energyalign.core.monotone import smooth
from energyalign.core.sharing import Sharing

_BY_CHANCE = 4.0  # standard errors


@dataclass(frozen=True, eq=False)
class Estimate:
    """Shifts that make the classes equal; the target prior is not in them yet.

    `strain` is how far monotone sharing moved each class from its own measured energy, where that is more than chance
    explains; 0 elsewhere.
    """

    estimator: str
    clusters: Clusters
    shifts: Floats
    standard_errors: Floats
    strain: Floats


def estimate(evidence: Evidence, estimator: Estimator, sharing: Sharing) -> Estimate:
    """Estimate the energies of the classes and turn them into shifts against the anchor."""
    if sharing == "monotone":
        return _estimate_monotone(evidence, estimator)
    energies = _energies(evidence, estimator, sharing)
    shifts = energies.values[sharing.anchor] - energies.values
    return Estimate(
        estimator.name,
        sharing,
        np.where(evidence.masked, 0.0, shifts[sharing.indices]),
        np.where(evidence.masked, 0.0, energies.shift_standard_errors[sharing.indices]),
        np.zeros(evidence.n_classes),
    )


def _estimate_monotone(evidence: Evidence, estimator: Estimator) -> Estimate:
    if evidence.counts is None:
        raise EnergyAlignError("monotone sharing orders the classes by their training counts: pass counts=...")
    usable = np.flatnonzero(evidence.usable)
    if len(usable) == 0:
        raise EnergyAlignError("no class has evidence: give logits of the classes to correct.")
    # Classes without evidence must not stop the others: each joins the usable class nearest to it in counts, then
    # takes its own count's value.
    stand_in = np.arange(evidence.n_classes)
    for k in np.flatnonzero(evidence.unseen):
        stand_in[k] = usable[np.argmin(np.abs(evidence.counts[usable] - evidence.counts[k]))]
    assignment = np.unique(stand_in, return_inverse=True)[1]
    rarest = usable[np.argmin(evidence.counts[usable])]
    # Where no class has to join another, these are the clusters of `per-class`, whose energies may be known already.
    name = "given" if evidence.unseen.any() else "per-class"
    alone = Clusters(tuple(assignment.tolist()), int(assignment[rarest]), name)
    energies = _energies(evidence, estimator, alone)
    own, own_errors = energies.values[alone.indices], energies.standard_errors[alone.indices]
    values, errors = smooth(own, own_errors, evidence.counts, evidence.usable)
    pools = np.unique(values, return_inverse=True)[1]
    return Estimate(
        estimator.name,
        Clusters(tuple(pools.tolist()), int(pools[rarest]), "monotone"),
        np.where(evidence.masked, 0.0, values[rarest] - values),
        np.where(evidence.masked | (pools == pools[rarest]), 0.0, np.hypot(errors, errors[rarest])),
        np.where(evidence.usable & (np.abs(values - own) > _BY_CHANCE * own_errors), np.abs(values - own), 0.0),
    )


def _energies(evidence: Evidence, estimator: Estimator, clusters: Clusters) -> Energies:
    """Energies are computed once per evidence: `auto` asks for the same ones under several ways of sharing."""
    known = evidence.estimated
    if (estimator, clusters) not in known:
        known[estimator, clusters] = estimator.energies(evidence, clusters)
    result: Energies = known[estimator, clusters]
    return result
