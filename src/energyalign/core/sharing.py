"""Sharings of shifts between classes: parse the option `clusters`, and list the sharings that `auto` compares.

A sharing is either fixed `Clusters`, or ``monotone``: clusters found by isotonic regression of the energies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from energyalign.core.arrays import Bools, Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence

Monotone: TypeAlias = Literal["monotone"]
Sharing: TypeAlias = Clusters | Monotone
SharingChoice: TypeAlias = str | int | Sequence[int] | Clusters

MAX_JENKS_CLUSTERS = 10  # that `auto` tries


def make_sharing(choice: SharingChoice, evidence: Evidence) -> Sharing:
    """Parse ``per-class``, ``monotone``, a number of Jenks clusters, `Clusters`, or the cluster of each class."""
    if isinstance(choice, str) and choice.isdecimal():
        choice = int(choice)
    if isinstance(choice, Clusters):
        clusters = choice
    elif isinstance(choice, (int, np.integer)):
        return Clusters.jenks(_need_counts(evidence, f"clusters {choice}"), int(choice))
    elif isinstance(choice, (Sequence, np.ndarray)) and not isinstance(choice, str):
        clusters = Clusters.from_assignment(choice, evidence.counts)
    elif choice == "per-class":
        return share_per_class(evidence)
    elif choice == "monotone":
        _need_counts(evidence, "clusters 'monotone'")
        return "monotone"
    else:
        raise EnergyAlignError(
            f"unknown clusters {choice!r}: choose auto, per-class, monotone, jenks, a number of clusters, "
            "or give the cluster of each class."
        )
    if clusters.n_classes != evidence.n_classes:
        raise EnergyAlignError(
            f"clusters must have one entry per class of the logits, {evidence.n_classes}, got {clusters.n_classes}."
        )
    return clusters


def name_of(sharing: Sharing) -> str:
    """Return the name of a sharing in results."""
    return sharing if isinstance(sharing, str) else sharing.name


def sharings_to_try(evidence: Evidence) -> list[Sharing]:
    """Return the sharings that `auto` compares: per class and, if counts differ, monotone (first) and Jenks."""
    if evidence.counts is None or np.ptp(evidence.counts) == 0:
        return [share_per_class(evidence)]
    return ["monotone", share_per_class(evidence), *jenks_to_try(evidence)]


def jenks_to_try(evidence: Evidence) -> list[Sharing]:
    """Return Jenks clusters of the training counts, for 2, 3, ... clusters."""
    counts = _need_counts(evidence, "clusters 'jenks'")
    largest = min(MAX_JENKS_CLUSTERS, len(np.unique(counts)), max(2, evidence.n_classes - 1))
    return [Clusters.jenks(counts, m) for m in range(min(2, largest), largest + 1)]


def share_per_class(evidence: Evidence) -> Clusters:
    """Return one cluster per class; the anchor is the rarest usable class."""
    counts = np.zeros(evidence.n_classes) if evidence.counts is None else evidence.counts
    return Clusters.per_class(evidence.n_classes, np.where(evidence.usable, counts, np.inf))


def _need_counts(evidence: Evidence, what: str) -> Floats:
    if evidence.counts is None:
        raise EnergyAlignError(f"{what} needs training counts: give counts.")
    return evidence.counts


def smooth(energies: Floats, standard_errors: Floats, counts: Floats, usable: Bools) -> tuple[Floats, Floats]:
    """Fit energies that do not decrease with the training count, by isotonic regression.

    A class that the model saw more often should not have a smaller negative free energy; where it seems to, because of
    noise, neighbours are pooled. Energies are weighted by 1 / standard error². Classes that are not `usable` take the
    fitted value at their count; outside the range of usable counts it grows with the logarithm of the count, as in
    theory.

    Returns
    -------
    energies, standard_errors : arrays of shape (n_classes,)
        Classes of one pool share a value and the standard error of the pool's weighted mean.
    """
    from sklearn.isotonic import IsotonicRegression

    # An unknown error gets almost no weight. If all errors are 0 (known energies), weights are equal. The weight is at
    # most 100 times the weight of the median error, so that one underestimated error cannot decide a pool.
    errors = np.minimum(standard_errors[usable], 1e6)
    floor = 0.1 * float(np.median(errors))
    weights = 1.0 / np.maximum(errors, floor) ** 2 if floor > 0 else np.ones(len(errors))
    regression = IsotonicRegression(increasing=True, out_of_bounds="clip")
    regression.fit(counts[usable], energies[usable], sample_weight=weights)
    smoothed = np.asarray(regression.predict(counts), dtype=np.float64)
    nearest = np.clip(counts, counts[usable].min(), counts[usable].max())
    smoothed += np.where(usable, 0.0, np.log(counts / nearest))
    if floor == 0:
        return smoothed, np.zeros_like(smoothed)
    pool_of_usable = np.searchsorted(np.unique(smoothed[usable]), smoothed[usable])
    precision = np.bincount(pool_of_usable, weights=weights)
    pool = np.clip(np.searchsorted(np.unique(smoothed[usable]), smoothed), 0, len(precision) - 1)
    return smoothed, 1.0 / np.sqrt(precision[pool])
