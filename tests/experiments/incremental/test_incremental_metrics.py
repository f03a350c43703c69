"""Average accuracy and forgetting, by hand and for rows of the paper."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.metrics import average, forgetting
from energyalign.experiments.incremental.paper import PAPER

SHARES = st.floats(0.0, 1.0, allow_subnormal=False)


def test_average_with_and_without_the_first_step() -> None:
    steps = [90.0, 70.0, 60.0, 50.0]
    assert average(steps, with_first=True) == 67.5
    assert average(steps, with_first=False) == 60.0


def test_average_of_one_step() -> None:
    assert average([83.0], with_first=True) == 83.0
    assert math.isnan(average([83.0], with_first=False))


def test_average_of_nothing() -> None:
    assert math.isnan(average([], with_first=True))
    assert math.isnan(average([], with_first=False))


@pytest.mark.parametrize(
    ("cell", "printed", "with_first"),
    [
        ("cifar100-il-20", 63.2, 64.9),  # 1200.4 / 19 and 1298.0 / 20
        ("cifar100-il-10", 65.2, 67.9),  # 586.6 / 9 and 679.1 / 10
        ("cifar100-il-5", 66.6, 69.8),  # 266.5 / 4 and 348.8 / 5
        ("cifar100-il-2", 65.2, 71.0),  # 65.2 / 1 and 142.1 / 2
    ],
)
def test_the_papers_average_is_without_the_first_step(cell: str, printed: float, with_first: float) -> None:
    steps = [step for step in PAPER[cell]["ea"].top1 if step is not None]
    assert average(steps, with_first=False) == pytest.approx(printed, abs=0.0501)
    assert average(steps, with_first=True) == pytest.approx(with_first, abs=0.0501)


def test_forgetting_by_hand() -> None:
    # The first group falls from 90 to 50, the second from 80 to 70.
    assert forgetting([[90.0], [60.0, 80.0], [50.0, 70.0, 85.0]]) == 25.0


def test_forgetting_is_from_the_best_and_not_from_the_first_recorded() -> None:
    # The first group is best after the second step: 80 - 30, and the second group 50 - 40.
    # Relative to the first recorded accuracy it would be (60 - 30 + 10) / 2 = 20.
    assert forgetting([[60.0], [80.0, 50.0], [30.0, 40.0, 90.0]]) == 30.0


def test_the_last_step_is_not_among_the_best() -> None:
    # The old group gains 20 in the last step; if the maximum included the last step, the result would be 0.
    assert forgetting([[60.0], [80.0, 50.0]]) == -20.0


def test_the_last_group_is_not_old() -> None:
    assert forgetting([[1.0], [1.0, 0.0]]) == forgetting([[1.0], [1.0, 1.0]]) == 0.0


def test_every_group_counts_the_same_however_many_classes_it_has() -> None:
    # Steps of 8, 2 and 2 classes. The first group falls from 6 of 8 to 2 of 8, the second does not fall: half of 0.5.
    # Weighted by classes it would be 8 * 0.5 / 10 = 0.4.
    assert forgetting([[6 / 8], [4 / 8, 2 / 2], [2 / 8, 2 / 2, 1.0]]) == 0.25


def test_forgetting_needs_two_steps() -> None:
    assert math.isnan(forgetting([[0.9]]))
    assert math.isnan(forgetting([]))


def test_an_unknown_accuracy_makes_the_forgetting_unknown() -> None:
    assert math.isnan(forgetting([[0.9], [math.nan, 0.8], [0.5, 0.7, 0.9]]))
    assert math.isnan(forgetting([[math.nan], [0.6, 0.8], [0.5, 0.7, 0.9]]))


@pytest.mark.parametrize(
    ("groups", "step"),
    [
        ([[0.9, 0.1], [0.5, 0.6]], 1),
        ([[0.9], [0.5]], 2),
        ([[0.9], [0.5, 0.6, 0.7]], 2),
        ([[]], 1),
        ([[0.9], [0.5, 0.6], [0.5, 0.6]], 3),
    ],
)
def test_ragged_groups_are_refused(groups: list[list[float]], step: int) -> None:
    with pytest.raises(EnergyAlignError, match=rf"after step {step} are of .* groups of classes: .* {step} in all"):
        forgetting(groups)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_steps=st.integers(2, 8))
def test_forgetting_against_a_plain_loop(data: st.DataObject, n_steps: int) -> None:
    groups = [data.draw(st.lists(SHARES, min_size=b + 1, max_size=b + 1)) for b in range(n_steps)]
    total = 0.0
    for g in range(n_steps - 1):
        best = -1.0
        for b in range(g, n_steps - 1):
            best = max(best, groups[b][g])
        total += best - groups[n_steps - 1][g]
    assert forgetting(groups) == pytest.approx(total / (n_steps - 1), abs=1e-12)
