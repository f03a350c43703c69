"""An even part of the evidence, where all of it would say the same more slowly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Bools, Ints
from energyalign.core.evidence import Evidence


def thinned(evidence: Evidence, most: int, *, fewest: int = 1) -> Evidence:
    """The evidence, or about `most` samples of it, evenly of each class; where a class has `fewest`, no fewer of it."""
    kept = _kept(evidence, most, fewest)
    return evidence if kept is None else evidence.subset(kept[0])


def thinned_in_place_of_all(evidence: Evidence, most: int, *, fewest: int) -> Evidence:
    """The same, each sample standing for those that are left out: it counts as if it had been seen that often."""
    kept = _kept(evidence, most, fewest)
    if kept is None:
        return evidence
    keep, spacing = kept
    return replace(evidence, keep=keep, repeats=evidence.occurrences * spacing)


def rank_in_class(labels: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """How many earlier samples have the same label, per sample; and the number of samples, per class."""
    sizes = np.bincount(labels, minlength=n_classes)
    # Small numbers, and one array at a time: there may be millions of samples.
    small = np.uint16 if n_classes <= 1 << 16 else np.int64
    order = np.argsort(labels.astype(small), kind="stable").astype(np.int32 if len(labels) < 1 << 31 else np.int64)
    rank = np.empty_like(order)
    place = np.arange(len(labels), dtype=order.dtype)
    place -= np.repeat((np.cumsum(sizes) - sizes).astype(order.dtype), sizes)
    rank[order] = place
    return rank, sizes


def _kept(evidence: Evidence, most: int, fewest: int) -> tuple[Bools, npt.NDArray[np.int32]] | None:
    """Which samples are kept, and one of how many each of them is; None if it is all of them."""
    if evidence.accumulated is not None or evidence.n_samples <= most:
        return None
    counted = np.flatnonzero(evidence.occurrences > 0)
    keep_every = -(-len(counted) // most)
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
        spacing[counted] = np.clip(sizes // fewest, 1, keep_every)[labels]
        keep[counted] = rank % spacing[counted] == 0
    return keep, spacing
