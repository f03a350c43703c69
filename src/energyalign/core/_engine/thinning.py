"""An even part of the evidence, where all of it would say the same more slowly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Bools, Ints
from energyalign.core.evidence import Evidence


def thin(evidence: Evidence, max_samples: int, *, min_per_class: int = 1) -> Evidence:
    """Return the evidence, or an even part of each class of it: about `max_samples` in all.

    At least `min_per_class` samples of a class are kept, or all of them if it has fewer.
    """
    kept = _choose_samples(evidence, max_samples, min_per_class)
    return evidence if kept is None else evidence.subset(kept[0])


def thin_and_repeat(evidence: Evidence, max_samples: int, *, min_per_class: int) -> Evidence:
    """Do the same, with each kept sample repeated for those that are left out."""
    kept = _choose_samples(evidence, max_samples, min_per_class)
    if kept is None:
        return evidence
    keep, spacing = kept
    return replace(evidence, keep=keep, repeats=evidence.occurrences * spacing)


def rank_in_class(labels: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """Count the earlier samples with the same label, per sample; and the samples, per class."""
    sizes = np.bincount(labels, minlength=n_classes)
    # Small numbers, and one array at a time: there may be millions of samples.
    small = np.uint16 if n_classes <= 1 << 16 else np.int64
    order = np.argsort(labels.astype(small), kind="stable").astype(np.int32 if len(labels) < 1 << 31 else np.int64)
    rank = np.empty_like(order)
    place = np.arange(len(labels), dtype=order.dtype)
    place -= np.repeat((np.cumsum(sizes) - sizes).astype(order.dtype), sizes)
    rank[order] = place
    return rank, sizes


def _choose_samples(
    evidence: Evidence, max_samples: int, min_per_class: int
) -> tuple[Bools, npt.NDArray[np.int32]] | None:
    """Choose the samples to keep, and say one of how many each of them is; None if all are kept."""
    if evidence.accumulated is not None or evidence.n_samples <= max_samples:
        return None
    counted = np.flatnonzero(evidence.occurrences > 0)
    keep_every = -(-len(counted) // max_samples)
    if keep_every <= 1:
        return None
    keep, spacing = np.zeros(evidence.n_samples, dtype=bool), np.ones(evidence.n_samples, dtype=np.int32)
    if evidence.labels is None:
        # One of each group of neighbours, drawn: where the classes come in turn, one at even distances would see few.
        groups = np.arange(0, len(counted), keep_every)
        drawn = groups + np.random.default_rng(0).integers(np.minimum(keep_every, len(counted) - groups))
        keep[counted[drawn]] = True
        spacing[:] = keep_every
    else:
        labels = evidence.labels[counted]
        rank, sizes = rank_in_class(labels, evidence.n_classes)
        spacing[counted] = np.clip(sizes // min_per_class, 1, keep_every)[labels]
        keep[counted] = rank % spacing[counted] == 0
    return keep, spacing
