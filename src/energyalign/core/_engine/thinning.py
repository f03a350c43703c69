"""Even subsets of the evidence, for estimates that do not need all of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Bools, Ints
from energyalign.core.evidence import Evidence


def thin(evidence: Evidence, max_samples: int, *, min_per_class: int = 1) -> Evidence:
    """Return the evidence, thinned evenly within each class to about `max_samples` in total.

    Keep at least `min_per_class` samples of each class (default 1), or all if it has fewer.
    """
    kept = _choose_samples(evidence, max_samples, min_per_class)
    return evidence if kept is None else evidence.subset(kept[0])


def thin_and_repeat(evidence: Evidence, max_samples: int, *, min_per_class: int) -> Evidence:
    """Thin the evidence like `thin`, and raise the repeats of kept samples to make up for samples left out."""
    kept = _choose_samples(evidence, max_samples, min_per_class)
    if kept is None:
        return evidence
    keep, spacing = kept
    return replace(evidence, keep=keep, repeats=evidence.occurrences * spacing)


def rank_in_class(labels: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """Return the number of earlier samples with the same label, per sample, and the number of samples per class."""
    sizes = np.bincount(labels, minlength=n_classes)
    # Small types, since there may be millions of samples.
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
    """Return a mask of samples to keep, and how many samples each stands for; None if all are kept."""
    if evidence.accumulated is not None or evidence.n_samples <= max_samples:
        return None
    counted = np.flatnonzero(evidence.occurrences > 0)
    keep_every = -(-len(counted) // max_samples)
    if keep_every <= 1:
        return None
    keep, spacing = np.zeros(evidence.n_samples, dtype=bool), np.ones(evidence.n_samples, dtype=np.int32)
    if evidence.labels is None:
        # Draw one of each group of neighbours: if the classes alternate, a fixed stride would miss some.
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
