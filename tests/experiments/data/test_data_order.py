"""Samplers: class frequencies, reproducibility, and order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyalign.core.arrays import Ints
from energyalign.experiments.data.cut import profile_counts
from energyalign.experiments.data.order import (
    Order,
    class_aware,
    class_balanced,
    reversed_classes,
    reversed_probabilities,
    weighted_classes,
)

COUNTS = np.array([60, 25, 10, 5])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(4), COUNTS))
SAMPLERS = [class_balanced, reversed_classes, class_aware]


def shares(order: Order, labels: Ints, n_epochs: int = 200) -> np.ndarray:
    """Return the shares of the classes over many epochs."""
    drawn = np.concatenate([order(epoch) for epoch in range(1, n_epochs + 1)])
    return np.bincount(labels[drawn]) / len(drawn)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_epoch_is_a_function_of_seed_and_number(sampler: Callable[..., Order]) -> None:
    order = sampler(LABELS, 7)
    third = order(3)
    assert len(third) == len(order(0)) == len(LABELS)
    order(4)
    np.testing.assert_array_equal(order(3), third)
    np.testing.assert_array_equal(sampler(LABELS, 7)(3), third)
    assert (order(4) != third).any()
    assert (sampler(LABELS, 8)(3) != third).any()


def test_balanced_classes_are_equally_likely() -> None:
    np.testing.assert_allclose(shares(class_balanced(LABELS, 0), LABELS), 0.25, atol=0.015)


def test_images_of_a_class_are_equally_likely() -> None:
    drawn = np.concatenate([class_balanced(LABELS, 0)(epoch) for epoch in range(400)])
    times = np.bincount(drawn, minlength=len(LABELS))
    expected = (400 * len(LABELS) / 4 / COUNTS)[LABELS]
    assert (np.abs(times - expected) < 6 * np.sqrt(expected)).all()


def test_draws_are_with_replacement() -> None:
    assert len(np.unique(class_balanced(LABELS, 0)(1))) < len(LABELS)


def test_reversed_probabilities_of_cifar_10_at_imbalance_100() -> None:
    probabilities = reversed_probabilities(profile_counts("exponential", 5000, 10, 100))
    assert probabilities[-1] == pytest.approx(0.402, abs=5e-4)
    assert probabilities[0] == pytest.approx(0.0040, abs=5e-5)
    assert probabilities.sum() == pytest.approx(1)


def test_reversed_classes_are_drawn_so() -> None:
    inverse = 1 / COUNTS
    np.testing.assert_allclose(shares(reversed_classes(LABELS, 0), LABELS), inverse / inverse.sum(), atol=0.015)


def test_a_class_without_images_is_never_drawn() -> None:
    labels = np.array([0, 0, 0, 2, 3, 3])
    assert reversed_probabilities(np.bincount(labels)) == pytest.approx([2 / 11, 0, 6 / 11, 3 / 11])
    np.testing.assert_allclose(shares(class_balanced(labels, 0), labels, 3000), [1 / 3, 0, 1 / 3, 1 / 3], atol=0.02)
    assert set(labels[class_aware(labels, 0)(1)]) <= {0, 2, 3}


def test_given_probabilities() -> None:
    given_ones = np.array([0.1, 0.0, 0.2, 0.7])
    np.testing.assert_allclose(shares(weighted_classes(LABELS, given_ones, 0), LABELS), given_ones, atol=0.015)


@settings(deadline=None, max_examples=60)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=7), seed=st.integers(0, 99), per_visit=st.integers(1, 5)
)
def test_class_aware_classes_take_turns(counts: list[int], seed: int, per_visit: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    drawn = class_aware(labels, seed, per_visit=per_visit)(seed)
    assert len(drawn) == len(labels)
    visits = [drawn[i : i + per_visit] for i in range(0, len(drawn), per_visit)]
    visited = []
    for visit in visits:
        assert len(set(labels[visit])) == 1
        visited.append(int(labels[visit[0]]))
    for start in range(0, len(visited), len(counts)):
        turn = visited[start : start + len(counts)]
        assert len(set(turn)) == len(turn)  # nobody twice before everybody once
    for k, count in enumerate(counts):
        of_class = drawn[labels[drawn] == k]
        for start in range(0, len(of_class), count):
            once = of_class[start : start + count]
            assert len(set(once)) == len(once)  # no image twice before all were seen


def test_class_aware_is_balanced_four_at_a_time() -> None:
    drawn = LABELS[class_aware(LABELS, 0)(1)]
    assert len(drawn) == 100
    assert (drawn.reshape(25, 4) == drawn[::4, None]).all()
    assert sorted(np.bincount(drawn)) == [24, 24, 24, 28]  # 25 visits to 4 classes
