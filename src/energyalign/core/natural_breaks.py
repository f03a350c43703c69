"""Jenks natural breaks: one-dimensional k-means by dynamic programming."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import Floats, Ints


class _Groups:
    """Cumulative sums over sorted distinct values, which give the squared distances within any group."""

    def __init__(self, values: Floats, counts: Ints) -> None:
        # Centred and in long double, to limit cancellation: the squares may be large.
        centred = (values - np.average(values, weights=counts)).astype(np.longdouble)
        self._weight, self._first, self._second = (
            np.concatenate([[0.0], np.cumsum(counts * centred**power)]) for power in range(3)
        )

    def distances(self, start: Ints, stop: Ints) -> Floats:
        """Sum the squared distances of `values[start:stop]` to their mean."""
        weight, first, second = (s[stop] - s[start] for s in (self._weight, self._first, self._second))
        return np.asarray(np.maximum(second - first**2 / weight, 0.0), dtype=np.float64)


class _Layer(NamedTuple):
    """The minimal sum of distances for each prefix of the values, and the start of its last group."""

    least: Floats
    begin: Ints


def natural_breaks(values: Floats, n_groups: int) -> Floats:
    """Return the largest value of each group but the last.

    Minimise the squared distances to the group means by dynamic programming over the distinct values. The start of the
    last group grows with its end, so that divide and conquer takes n log n steps per group.
    """
    distinct, counts = np.unique(values, return_counts=True)
    _, exponent = np.frexp(np.abs(distinct).max())
    # Scaled by a power of two, which rounds nothing, so that squares do not overflow.
    groups, size = _Groups(np.ldexp(distinct, -exponent), counts), len(distinct)
    ends = np.arange(1, size + 1)
    layers = [_Layer(groups.distances(np.zeros_like(ends), ends), np.zeros_like(ends))]
    for number in range(1, n_groups):
        layers.append(_next_layer(groups, layers[-1].least, number))
    breaks = []
    last = size - 1
    for layer in reversed(layers[1:]):
        last = int(layer.begin[last]) - 1
        breaks.append(distinct[last])
    return np.array(breaks[::-1], dtype=np.float64)


def _next_layer(groups: _Groups, before: Floats, number: int) -> _Layer:
    """Extend the solutions for `number` groups by one group, by divide and conquer, one recursion depth at a time."""
    size = len(before)
    least, begin = np.full(size, np.inf), np.zeros(size, dtype=np.int64)
    # Ranges of ends to process, and the range where their last group may begin.
    low, high = np.array([number]), np.array([size - 1])
    from_, to = np.array([number]), np.array([size - 1])
    while len(low):
        middle = (low + high) // 2
        last = np.minimum(to, middle)
        lengths = last - from_ + 1
        offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        starts = np.arange(lengths.sum()) - np.repeat(offsets - from_, lengths)
        costs = before[starts - 1] + groups.distances(starts, np.repeat(middle + 1, lengths))
        best = np.minimum.reduceat(costs, offsets)
        # The first of equal minima wins.
        is_best = np.flatnonzero(costs == np.repeat(best, lengths))
        chosen = starts[is_best[np.searchsorted(is_best, offsets)]]
        least[middle], begin[middle] = best, chosen
        left, right = low < middle, middle < high
        low, high, from_, to = (
            np.concatenate([low[left], middle[right] + 1]),
            np.concatenate([middle[left] - 1, high[right]]),
            np.concatenate([from_[left], chosen[right]]),
            np.concatenate([chosen[left], to[right]]),
        )
    return _Layer(least, begin)
