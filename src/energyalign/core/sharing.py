"""From what the user wrote for `clusters` to a way of sharing shifts between classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence

Monotone: TypeAlias = Literal["monotone"]
Sharing: TypeAlias = Clusters | Monotone
SharingChoice: TypeAlias = str | int | Sequence[int] | Clusters

MOST_JENKS_CLUSTERS = 10  # what `auto` tries


def make_sharing(choice: SharingChoice, evidence: Evidence) -> Sharing:
    """``per-class``, ``monotone``, a number of Jenks clusters, clusters, or the cluster of each class."""
    if isinstance(choice, str) and choice.isdecimal():
        choice = int(choice)
    if isinstance(choice, Clusters):
        clusters = choice
    elif isinstance(choice, (int, np.integer)):
        return Clusters.jenks(_need_counts(evidence, f"clusters={choice}"), int(choice))
    elif isinstance(choice, (Sequence, np.ndarray)) and not isinstance(choice, str):
        clusters = Clusters.given(choice, evidence.counts)
    elif choice == "per-class":
        return _per_class(evidence)
    elif choice == "monotone":
        _need_counts(evidence, "clusters='monotone'")
        return "monotone"
    else:
        raise EnergyAlignError(
            f"unknown clusters {choice!r}: choose auto, per-class, monotone, jenks, a number of clusters, "
            "or give the cluster of each class."
        )
    if clusters.n_classes != evidence.n_classes:
        raise EnergyAlignError(
            f"clusters were given for {clusters.n_classes} classes, the logits have {evidence.n_classes}."
        )
    return clusters


def sharings_to_try(evidence: Evidence) -> list[Sharing]:
    """What `auto` compares: per class and, where training counts differ, monotone (first) and Jenks clusters."""
    if evidence.counts is None or np.ptp(evidence.counts) == 0:
        return [_per_class(evidence)]
    return ["monotone", _per_class(evidence), *jenks_to_try(evidence)]


def jenks_to_try(evidence: Evidence) -> list[Sharing]:
    """Natural breaks of the training counts into 2, 3, ... clusters."""
    counts = _need_counts(evidence, "clusters='jenks'")
    most = min(MOST_JENKS_CLUSTERS, len(np.unique(counts)), max(2, evidence.n_classes - 1))
    return [Clusters.jenks(counts, m) for m in range(min(2, most), most + 1)]


def _per_class(evidence: Evidence) -> Clusters:
    """The anchor is the rarest class in play."""
    counts = np.zeros(evidence.n_classes) if evidence.counts is None else evidence.counts
    return Clusters.per_class(evidence.n_classes, np.where(evidence.usable, counts, np.inf))


def _need_counts(evidence: Evidence, what: str) -> Floats:
    if evidence.counts is None:
        raise EnergyAlignError(f"{what} orders the classes by their training counts: pass counts=...")
    return evidence.counts
