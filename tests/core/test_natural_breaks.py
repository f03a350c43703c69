"""Natural breaks compared with every possible division, and with jenkspy."""

from __future__ import annotations

from itertools import combinations

import jenkspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyalign.core.arrays import Floats
from energyalign.core.natural_breaks import natural_breaks


def distances(values: Floats, breaks: Floats) -> float:
    group = np.searchsorted(breaks, values, side="left")
    return sum(float(((values[group == g] - values[group == g].mean()) ** 2).sum()) for g in np.unique(group))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60) | st.integers(1, 10**8), min_size=2, max_size=12), st.integers(1, 5))
def test_no_other_cut_is_better(counts: list[int], n_groups: int) -> None:
    values = np.array(counts, dtype=float)
    distinct = np.unique(values)
    n_groups = min(n_groups, len(distinct))
    found = natural_breaks(values, n_groups)
    assert len(found) == n_groups - 1
    assert np.all(np.diff(found) > 0)
    best = min(distances(values, np.array(cut)) for cut in combinations(distinct[:-1], n_groups - 1))
    assert distances(values, found) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n_groups", [2, 3, 7, 10])
@pytest.mark.parametrize(
    "counts",
    [
        (500 * 0.01 ** (np.arange(100) / 99)).astype(int),
        np.random.default_rng(0).pareto(1.0, 400) * 10,
        np.arange(1, 65) ** 2,
    ],
)
def test_they_are_those_of_jenkspy(counts: Floats, n_groups: int) -> None:
    theirs = np.asarray(jenkspy.jenks_breaks(counts, n_classes=n_groups))[1:-1]
    assert natural_breaks(np.asarray(counts, dtype=float), n_groups).tolist() == theirs.tolist()


@pytest.mark.parametrize("scale", [1e308, 1e-300])
def test_numbers_whose_squares_overflow_or_vanish(scale: float) -> None:
    values = np.array([1.0, 0.99, 0.5, 1e-3, 1.1e-3])
    np.testing.assert_array_equal(natural_breaks(scale * values, 3), scale * natural_breaks(values, 3))
