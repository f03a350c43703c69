"""An even part of the evidence, where all of it would say the same more slowly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from energyalign.core.arrays import Bools, Ints
from energyalign.core.evidence import Evidence


def thinned(evidence: Evidence, keep_every: int, *, fewest: int = 1) -> Evidence:
    """The evidence with one of so many samples of each class, but not fewer than `fewest` of a class that has them."""
    if keep_every <= 1 or evidence.accumulated is not None:
        return evidence
    keep, _ = _kept(evidence, keep_every, fewest)
    return evidence.subset(keep)


def thinned_in_place_of_all(evidence: Evidence, keep_every: int, *, fewest: int) -> Evidence:
    """The same, each sample standing for those that are left out: it counts as if it had been seen that often."""
    if keep_every <= 1 or evidence.accumulated is not None:
        return evidence
    keep, spacing = _kept(evidence, keep_every, fewest)
    return replace(evidence, keep=keep, repeats=evidence.occurrences * spacing)


def rank_in_class(labels: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """How many earlier samples have the same label, per sample; and the number of samples, per class."""
    sizes = np.bincount(labels, minlength=n_classes)
    order = np.argsort(labels, kind="stable")
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank, sizes


def _kept(evidence: Evidence, keep_every: int, fewest: int) -> tuple[Bools, Ints]:
    """Which samples are kept, and one of how many each of them is."""
    if evidence.labels is None:
        # One of each group of neighbours, drawn: where the classes come in turn, one at even distances would see few.
        groups = np.arange(0, evidence.n_samples, keep_every)
        drawn = groups + np.random.default_rng(0).integers(np.minimum(keep_every, evidence.n_samples - groups))
        keep = np.zeros(evidence.n_samples, dtype=bool)
        keep[drawn] = True
        return keep, np.full(evidence.n_samples, keep_every)
    rank, sizes = rank_in_class(evidence.labels, evidence.n_classes)
    spacing = np.clip(sizes // fewest, 1, keep_every)[evidence.labels]
    return rank % spacing == 0, spacing
