"""Clusters: cases by hand, a brute-force optimum, and invalid input."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError


def within(counts: np.ndarray, assignment: Any) -> float:
    """Return the sum of squared distances of the counts to the means of their clusters."""
    return sum(np.sum((part - part.mean()) ** 2) for k in set(assignment) for part in [counts[np.equal(assignment, k)]])


def best_within(counts: np.ndarray, n_clusters: int) -> float:
    """Return the smallest such sum over all ways to divide the sorted distinct counts."""
    distinct = np.unique(counts)
    cuts = combinations(distinct[1:], n_clusters - 1)
    return min(within(counts, tuple(np.searchsorted(cut, counts, side="right"))) for cut in cuts)


class TestPerClass:
    def test_every_class_alone_and_the_rarest_is_the_anchor(self) -> None:
        clusters = Clusters.per_class(4, [30, 7, 2, 100])
        assert clusters == Clusters((0, 1, 2, 3), anchor=2, name="per-class")

    def test_without_counts_the_first_class_is_the_anchor(self) -> None:
        assert Clusters.per_class(3).anchor == 0


class TestJenks:
    def test_by_hand(self) -> None:
        # Gaps between clusters are 40 and 400; within clusters they are at most 5.
        clusters = Clusters.jenks([500, 3, 55, 50, 1, 495, 5], 3)
        assert clusters == Clusters((2, 0, 1, 1, 0, 2, 0), anchor=0, name="jenks-3")

    def test_the_anchor_has_the_smallest_counts(self) -> None:
        clusters = Clusters.jenks([900, 1000, 10, 12], 2)
        assert [clusters.assignment[k] for k in (2, 3)] == [clusters.anchor, clusters.anchor]

    def test_one_cluster_and_as_many_as_distinct_counts(self) -> None:
        assert Clusters.jenks([5, 1, 9], 1).assignment == (0, 0, 0)
        assert Clusters.jenks([5, 1, 9, 5], 3).assignment == (1, 0, 2, 1)

    @given(st.lists(st.integers(1, 60), min_size=2, max_size=9), st.data())
    def test_optimal_and_equal_counts_stay_together(self, counts: list[int], data: st.DataObject) -> None:
        values = np.array(counts, dtype=float)
        n_clusters = data.draw(st.integers(1, len(set(counts))))
        clusters = Clusters.jenks(counts, n_clusters)
        assert clusters.n_clusters == n_clusters
        assert within(values, clusters.assignment) == pytest.approx(best_within(values, n_clusters), abs=1e-6)
        for count in set(counts):
            assert len({clusters.assignment[k] for k in np.flatnonzero(values == count)}) == 1
        order = np.argsort(values, kind="stable")
        assert np.all(np.diff(clusters.indices[order]) >= 0)  # clusters are ranges of counts, in order

    @pytest.mark.parametrize("n_clusters", [2, 3])
    def test_a_long_tail_of_a_hundred_classes(self, n_clusters: int) -> None:
        counts = np.round(500 * 100 ** (-np.arange(100) / 99))
        clusters = Clusters.jenks(counts, n_clusters)
        assert within(counts, clusters.assignment) == pytest.approx(best_within(counts, n_clusters), rel=1e-9)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_as_many_classes_as_inaturalist(self, seed: int) -> None:
        counts = np.round(np.random.default_rng(seed).pareto(0.8, size=8142) * 16 + 2).clip(max=1000)
        clusters = Clusters.jenks(counts, 5)
        lows, highs = (
            [pick(counts[clusters.indices == k]) for k in range(clusters.n_clusters)] for pick in (np.min, np.max)
        )
        assert clusters.n_clusters == 5
        assert all(high < low for high, low in zip(highs[:-1], lows[1:], strict=True))
        assert clusters.sizes().sum() == 8142

    @pytest.mark.parametrize("n_clusters", [0, -1, 4])
    def test_a_number_that_the_counts_cannot_give(self, n_clusters: int) -> None:
        with pytest.raises(EnergyAlignError, match=rf"must be in 1\.\.3 .*, got {n_clusters}"):
            Clusters.jenks([5, 5, 1, 9], n_clusters)


class TestOldNew:
    def test_old_classes_are_the_anchor(self) -> None:
        assert Clusters.old_new([3, 0], 4) == Clusters((0, 1, 1, 0), anchor=0, name="old-new")

    @pytest.mark.parametrize("old", [[], [0, 1, 2], [7], [-1]])
    def test_some_but_not_all_must_be_old(self, old: list[int]) -> None:
        with pytest.raises(EnergyAlignError, match=r"some, but not all, of the classes 0\.\.2"):
            Clusters.old_new(old, 3)


class TestGiven:
    def test_the_anchor_has_the_smallest_mean_count(self) -> None:
        # Means 20, 10, 30; the sums 20, 30, 30 would give another anchor.
        clusters = Clusters.from_assignment(np.array([0, 1, 2, 1, 1]), counts=[20, 5, 30, 15, 10])
        assert clusters == Clusters((0, 1, 2, 1, 1), anchor=1, name="given")

    def test_without_counts_cluster_0_is_the_anchor(self) -> None:
        assert Clusters.from_assignment([1, 0, 1]).anchor == 0

    @pytest.mark.parametrize("assignment", [[0, 2], [1, 1], [0, -1], [0], []])
    def test_numbers_must_run_from_0_without_gaps(self, assignment: list[int]) -> None:
        with pytest.raises(EnergyAlignError, match=r"numbered 0, 1, 2, \.\.\. without gaps"):
            Clusters.from_assignment(assignment)

    @pytest.mark.parametrize("assignment", [[0.0, 0.7], ["0", "1"], [None, 0]])
    def test_numbers_must_be_whole(self, assignment: list[Any]) -> None:
        with pytest.raises(EnergyAlignError, match="clusters must be integers"):
            Clusters.from_assignment(assignment)

    def test_counts_of_another_number_of_classes(self) -> None:
        with pytest.raises(EnergyAlignError, match="one entry per class, got 2 and 3"):
            Clusters.from_assignment([0, 1], counts=[1, 2, 3])

    @pytest.mark.parametrize("anchor", [2, -1])
    def test_the_anchor_must_exist(self, anchor: int) -> None:
        with pytest.raises(EnergyAlignError, match=rf"anchor must be in 0\.\.1 .*, got {anchor}"):
            Clusters((0, 1, 1), anchor)


class TestArithmetic:
    def test_sums_and_sizes(self) -> None:
        clusters = Clusters((1, 0, 1, 1))
        assert clusters.sums(np.array([1.0, 10, 100, 1000])).tolist() == [10, 1101]
        assert clusters.sizes().tolist() == [1, 3]
        assert clusters.sizes(np.array([True, False, True, False])).tolist() == [0, 2]

    def test_a_partition_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Clusters((0, 1)).anchor = 1  # type: ignore[misc]
