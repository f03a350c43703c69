"""Costs by enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from energyalign.core.errors import BadValueError
from energyalign.core.objectives import Costs

MATRIX = [[0.0, 1, 2], [10, 0, 5], [3, 3, 0]]


def test_the_score_is_the_mean_cost() -> None:
    costs = Costs.make(MATRIX, 3)
    assert costs.score(np.array([0, 1, 2, 1]), np.array([0, 0, 1, 1]), np.array([1.0, 2, 1, 0]), 3) == -(20 + 3) / 4


def test_the_expected_cost_by_enumeration() -> None:
    posteriors = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    own = Costs.make(MATRIX, 3).expected(posteriors, np.array([0, 2]), np.array([1.0, 3.0]))
    first, second = 0.3 * 10 + 0.2 * 3, 0.1 * 2 + 0.1 * 5
    assert own == pytest.approx(-(first + 3 * second) / 4)


def test_what_a_class_costs() -> None:
    np.testing.assert_allclose(Costs.make(MATRIX, 3).of_classes, np.array([1.5, 7.5, 3]) / 4)
    np.testing.assert_allclose(Costs.make(np.zeros((2, 2)), 2).of_classes, 1)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [([[0, 1e308, 1], [1, 0, 1], [1, 1, 0]], r"finite numbers of at most 1e\+100, got 1e\+308"),
     ([[0, 1]], r"shape \(3, 3\), got \(1, 2\)"), (np.full((3, 3), np.nan), "finite"),
     ([[5.0, 1, 1], [1, 0, 1], [1, 1, 0]], "class 0 make a wrong prediction cheaper"),
     ([[0, 1, 1], [1, 0]], "costs must be 3 rows of 3 numbers"), ({"a": 1}, "costs must be 3 rows of 3 numbers")],
)  # fmt: skip
def test_bad_costs_are_refused(matrix: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        Costs.make(matrix, 3)
