"""Herding, by hand and compared with a second implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.memory import herding_order

# Few distinct values, so that equal and zero rows are common.
SMALL = hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(-3, 3).map(float))


def plain_herding(features: Floats, n_chosen: int) -> list[int]:
    """Compute the formula literally, one number at a time."""
    rows = []
    for row in features.tolist():
        length = math.sqrt(math.fsum(value * value for value in row))
        rows.append([value / length for value in row] if length > 0 else row)
    mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    chosen: list[int] = []
    while len(chosen) < min(n_chosen, len(rows)):
        best, best_distance = -1, math.inf
        for i, row in enumerate(rows):
            if i in chosen:
                continue
            members = [rows[j] for j in chosen] + [row]
            means = [math.fsum(column) / len(members) for column in zip(*members, strict=True)]
            if (distance := math.dist(mean, means)) < best_distance:
                best, best_distance = i, distance
        chosen.append(best)
    return chosen


def test_by_hand_with_a_tie() -> None:
    # Normalised: (1, 0), (0, 1), (0.71, 0.71); their mean is (0.57, 0.57). The third is nearest; after it the first and
    # the second are equally good, so the smaller index comes first.
    features = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    assert herding_order(features, 3).tolist() == [2, 0, 1]


def test_rows_are_made_of_length_1_and_their_mean_is_not() -> None:
    # Normalised: (1, 0), (0, 1), (-0.8, 0.6); mean (0.067, 0.533). After the second row, 2 mean - (0, 1) is (0.133,
    # 0.067), nearer to the first row than to the third. Without normalising rows, or with a normalised mean, the third
    # row would be next.
    features = np.array([[1.0, 0.0], [0.0, 1.0], [-8.0, 6.0]])
    assert herding_order(features, 3).tolist() == [1, 0, 2]


def test_zero_rows_stay_zero_and_can_be_chosen() -> None:
    # The mean is zero, so the row of zeros is nearest, and the other two are tied.
    assert herding_order(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), 3).tolist() == [2, 0, 1]


@pytest.mark.parametrize("seed", range(6))
def test_against_a_plain_implementation(seed: int) -> None:
    random = np.random.default_rng(seed)
    features = np.maximum(random.normal(0.3, 1.0, (40, 7)), 0.0)  # like features after a ReLU
    assert herding_order(features, 25).tolist() == plain_herding(features, 25)


@settings(max_examples=80, deadline=None)
@given(features=SMALL)
def test_every_image_comes_once(features: Floats) -> None:
    order = herding_order(features, len(features))
    assert sorted(order.tolist()) == list(range(len(features)))
    assert order.dtype == np.int64


@settings(max_examples=80, deadline=None)
@given(features=SMALL, n_chosen=st.integers(0, 12))
def test_fewer_images_are_a_beginning_of_more(features: Floats, n_chosen: int) -> None:
    everything = herding_order(features, len(features))
    np.testing.assert_array_equal(herding_order(features, n_chosen), everything[:n_chosen])


@settings(max_examples=60, deadline=None)
@given(features=SMALL, data=st.data())
def test_the_length_of_a_row_makes_no_difference(features: Floats, data: st.DataObject) -> None:
    # Powers of two, so that the direction is bitwise equal.
    powers = data.draw(st.lists(st.integers(-20, 20), min_size=len(features), max_size=len(features)))
    scaled = features * np.exp2(powers)[:, None]
    np.testing.assert_array_equal(herding_order(scaled, len(features)), herding_order(features, len(features)))


@pytest.mark.parametrize("seed", range(4))
def test_equal_images_come_in_the_order_of_their_numbers(seed: int) -> None:
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, 61)
    order = herding_order(random.normal(size=(3, 37))[kind], 61)
    for of_kind in range(3):
        assert (np.diff(order[kind[order] == of_kind]) > 0).all()


def test_single_precision_is_worked_on_in_double() -> None:
    features = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    np.testing.assert_array_equal(herding_order(features, 30), herding_order(features.astype(np.float64), 30))


def test_more_than_there_are_gives_all_and_the_input_is_left_as_it_was() -> None:
    features = np.array([[3.0, 4.0], [1.0, 0.0]])
    assert len(herding_order(features, 10)) == 2
    np.testing.assert_array_equal(features, [[3.0, 4.0], [1.0, 0.0]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    features = np.ones((4, 2))
    features[2, 1] = value
    with pytest.raises(EnergyAlignError, match="features of image 2 are not finite"):
        herding_order(features, 2)


@pytest.mark.parametrize("shape", [(3,), (0, 2), (2, 2, 2)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(EnergyAlignError, match=r"\(n_images, n_features\)"):
        herding_order(np.ones(shape), 1)
