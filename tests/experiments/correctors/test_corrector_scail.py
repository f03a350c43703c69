"""ScaIL: its scaled weights by hand, and which classes can win."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hand_made_step import hand_made_step, linear, pixels, record
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from energyalign.experiments.correctors.scail import ScaIL, scale_rows
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.nets.corrected_heads import EligibleHead

FIRST = np.array([[1.0, -4.0, 2.0], [3.0, 0.0, -2.0]])  # profile 3.5, 2, 0.5
NOW = np.array([[7.0, -1.0, 2.0], [0.0, 7.0, 2.0]])  # profile 7, 2, 0.5


def test_weights_are_scaled_by_rank() -> None:
    """The largest weight of each class doubles. A sorting permutation would double the 2 of class 0 instead."""
    np.testing.assert_allclose(scale_rows(FIRST, NOW), [[1.0, -8.0, 2.0], [6.0, 0.0, -2.0]])


def test_weights_of_zero_stay() -> None:
    np.testing.assert_array_equal(scale_rows(np.array([[0.0, 2.0]]), np.array([[3.0, 3.0]])), [[0.0, 3.0]])


WEIGHTS = st.floats(0.125, 8.0).flatmap(lambda size: st.sampled_from([size, -size]))


@given(arrays(np.float64, (3, 5), elements=WEIGHTS), arrays(np.float64, (2, 5), elements=WEIGHTS))
def test_old_classes_have_the_profile_of_new_ones(first: npt.NDArray[np.float64], now: npt.NDArray[np.float64]) -> None:
    """They agree rank by rank on average, and keep their signs."""
    scaled = scale_rows(first, now)
    order = np.argsort(-np.abs(first), axis=1, kind="stable")
    by_rank = np.take_along_axis(np.abs(scaled), order, axis=1).mean(axis=0)
    np.testing.assert_allclose(by_rank, -np.sort(-np.abs(now), axis=1).mean(axis=0))
    np.testing.assert_array_equal(np.sign(scaled), np.sign(first))


@pytest.mark.parametrize(
    ("first_bias", "scaled_bias"), [([1.0, -3.0], [2.0, -6.0]), ([0.0, 0.0], [0.0, 0.0])], ids=["some", "none"]
)
def test_old_rows_are_the_first_ones_and_new_rows_stay(first_bias: list[float], scaled_bias: list[float]) -> None:
    """The mean of |bias| is 2 in step 1 and 4 now; the present weights of old classes, 99, are not used."""
    today = linear([[99.0] * 3, [99.0] * 3, *NOW.tolist()], [99.0, 99.0, -6.0, 2.0])
    records = [record(FIRST.tolist(), bias=first_bias), record(NOW.tolist(), bias=[-6.0, 2.0])]
    after = hand_made_step(today, (2, 2), pixels([[1, 1, 1]], [2], 4), records=records)
    head = ScaIL().correct(after, EvidencePlan()).network.head
    rows = torch.tensor([[1.0, -8.0, 2.0], [6.0, 0.0, -2.0], *NOW.tolist()])
    features = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.5, 1.0]])
    with torch.no_grad():
        torch.testing.assert_close(head(features), features @ rows.T + torch.tensor([*scaled_bias, -6.0, 2.0]))
    assert after.network.head.weight[0].tolist() == [99.0] * 3


def test_each_step_has_a_profile_of_its_own() -> None:
    """Steps of one class each, with weights 2 and 5; the new class has 10."""
    records = [record([[2.0]]), record([[-5.0]]), record([[10.0]])]
    after = hand_made_step(linear([[1.0], [1.0], [10.0]]), (1, 1, 1), pixels([[1]], [2], 3), records=records)
    with torch.no_grad():
        assert ScaIL().correct(after, EvidencePlan()).network.head(torch.tensor([[1.0]])).tolist() == [
            [10.0, -10.0, 10.0]
        ]


def test_old_classes_beyond_the_first_ten_of_the_network_as_trained_cannot_win() -> None:
    """Of 12 old classes, 3 and 7 have the lowest scores as trained, and the highest after scaling."""
    as_trained = [5.0] * 13
    as_trained[3], as_trained[7], as_trained[12] = 1.0, 2.0, -9.0
    scaled = [float(k) for k in range(13)]
    scaled[3], scaled[7] = 50.0, 60.0
    head = EligibleHead(linear([[s] for s in scaled]), linear([[s] for s in as_trained]), 12, 10)
    with torch.no_grad():
        scores = head(torch.tensor([[1.0]])).tolist()[0]
    assert [k for k, score in enumerate(scores) if score == -float("inf")] == [3, 7]
    assert [score for k, score in enumerate(scores) if k not in (3, 7)] == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12]


def test_with_fewer_old_classes_all_can_win() -> None:
    head = EligibleHead(linear([[1.0], [2.0], [3.0]]), linear([[0.0], [0.0], [0.0]]), 2, 10)
    with torch.no_grad():
        assert head(torch.tensor([[1.0]])).tolist() == [[1.0, 2.0, 3.0]]
