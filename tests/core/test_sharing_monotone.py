"""Energies that increase with the training counts: pools by hand, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from energyalign.core.sharing import smooth

ALL = np.ones(5, dtype=bool)


def test_adjacent_violators_are_pooled_by_their_precision() -> None:
    counts = np.array([10.0, 20, 30, 40, 50])
    energies = np.array([1.0, 5.0, 2.0, 6.0, 7.0])
    errors = np.array([1.0, 1.0, 0.5, 1.0, 1.0])
    values, pooled = smooth(energies, errors, counts, ALL)
    # Only 5 and 2 are out of order. Precisions 1 and 4: (5 + 4 · 2) / 5 = 2.6, with error 1 / √5.
    assert values == pytest.approx([1.0, 2.6, 2.6, 6.0, 7.0], rel=1e-12)
    assert pooled == pytest.approx([1.0, 0.4472135955, 0.4472135955, 1.0, 1.0], rel=1e-9)


def test_pooling_goes_on_until_nothing_falls() -> None:
    # 4 and 3 pool to 3.5, which is above 2: all three pool to 3.
    values, errors = smooth(np.array([4.0, 3.0, 2.0, 9.0]), np.full(4, 0.6), np.array([1.0, 2, 3, 4]), ALL[:4])
    assert values == pytest.approx([3.0, 3.0, 3.0, 9.0])
    assert errors == pytest.approx([0.6 / np.sqrt(3)] * 3 + [0.6])


def test_the_order_of_the_classes_does_not_matter() -> None:
    counts = np.array([40.0, 10, 30, 50, 20])
    values, _ = smooth(np.array([6.0, 1.0, 2.0, 7.0, 5.0]), np.array([1, 1, 0.5, 1, 1]), counts, ALL)
    assert values == pytest.approx([6.0, 1.0, 2.6, 7.0, 2.6])


def test_what_rises_already_is_left_as_it_is() -> None:
    energies = np.array([-3.0, 0.5, 0.5000001, 2.0, 9.0])
    values, errors = smooth(energies, np.full(5, 0.3), np.array([1.0, 2, 3, 4, 5]), ALL)
    np.testing.assert_allclose(values, energies, rtol=1e-15)
    assert errors == pytest.approx([0.3] * 5)


def test_equal_counts_have_one_value() -> None:
    # Precisions 1 and 4: (1 + 4 · 3) / 5.
    values, errors = smooth(
        np.array([1.0, 3.0, 4.0]), np.array([1.0, 0.5, 1.0]), np.array([7.0, 7.0, 9.0]), np.ones(3, dtype=bool)
    )
    assert values == pytest.approx([2.6, 2.6, 4.0])
    assert errors == pytest.approx([1 / np.sqrt(5), 1 / np.sqrt(5), 1.0])


def test_classes_without_evidence_take_the_value_at_their_count() -> None:
    counts = np.array([10.0, 20, 30, 5, 99])
    energies = np.array([1.0, 1e9, 3.0, -1e9, np.nan])
    usable = np.array([True, False, True, False, False])
    values, errors = smooth(energies, np.array([0.1, np.inf, 0.1, np.inf, np.inf]), counts, usable)
    # Halfway between 10 and 30; beyond these counts, the nearest value plus the logarithm of the ratio of counts.
    assert values == pytest.approx([1.0, 2.0, 3.0, 1.0 - np.log(2), 3.0 + np.log(99 / 30)])
    assert np.all(np.isfinite(errors))


def test_known_energies_weigh_the_same_and_stay_known() -> None:
    values, errors = smooth(np.array([2.0, 1.0, 3.0]), np.zeros(3), np.array([1.0, 2, 3]), np.ones(3, dtype=bool))
    assert values == pytest.approx([1.5, 1.5, 3.0])
    assert errors.tolist() == [0.0, 0.0, 0.0]


def test_one_lucky_error_weighs_at_most_a_hundred_times_the_median() -> None:
    # Errors 1e-9 and 1 in one pool: without the limit on weights the value would be exactly 5.
    values, _ = smooth(np.array([5.0, 2.0, 9.0]), np.array([1e-9, 1.0, 1.0]), np.array([1.0, 2, 3]), ALL[:3])
    assert values[:2] == pytest.approx([(100 * 5 + 2) / 101] * 2)


def test_an_unknown_error_weighs_next_to_nothing() -> None:
    values, _ = smooth(np.array([5.0, 2.0, 9.0]), np.array([np.inf, 1.0, 1.0]), np.array([1.0, 2, 3]), ALL[:3])
    assert values == pytest.approx([2.0, 2.0, 9.0], abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.floats(-50, 50), st.floats(0.01, 5)), min_size=2, max_size=12),
    st.data(),
)
def test_never_falls_with_the_counts(classes: list[tuple[int, float, float]], data: st.DataObject) -> None:
    counts, energies, errors = (np.array(column, dtype=float) for column in zip(*classes, strict=True))
    usable = np.array(data.draw(st.lists(st.booleans(), min_size=len(classes), max_size=len(classes))))
    assume(usable.any())
    values, pooled = smooth(energies, errors, counts, usable)
    order = np.argsort(counts, kind="stable")
    assert np.all(np.diff(values[order]) >= 0)
    for count in set(counts):
        assert len(set(values[counts == count])) == 1
    low, high = energies[usable].min(), energies[usable].max()
    assert np.all((values[usable] >= low - 1e-9) & (values[usable] <= high + 1e-9))
    assert np.all(pooled > 0)


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(-5, 5), st.floats(0.5, 2)), min_size=2, max_size=8))
def test_no_other_rising_energies_are_nearer(classes: list[tuple[int, float, float]]) -> None:
    """Optimality: within a pool the weighted residuals sum to 0, and no division of the pool is better."""
    counts, energies, errors = (np.array(column, dtype=float) for column in zip(*classes, strict=True))
    values, _ = smooth(energies, errors, counts, np.ones(len(counts), dtype=bool))
    forces = (energies - values) / errors**2
    for value in set(values):
        pool = np.flatnonzero(values == value)
        assert np.sum(forces[pool]) == pytest.approx(0, abs=1e-6)
        for cut in set(counts[pool]):  # the mean of the upper part of a pool must not exceed the pool's
            assert np.sum(forces[pool][counts[pool] >= cut]) <= 1e-6
