"""Constraints by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from energyalign.core.errors import BadValueError
from energyalign.core.objectives import Constraints

NAMES = ("no", "yes")
LABELS = np.array([0, 0, 0, 1, 1])
PREDICTED = np.array([0, 0, 1, 1, 0])


def test_values_and_what_is_missed() -> None:
    constraints = Constraints.make({"yes": 0.8}, {"yes": 0.5, "no": 0.6}, NAMES)
    found = list(constraints.values(LABELS, PREDICTED, np.ones(5), 2))
    assert [(name, k, minimum, value) for name, k, minimum, value, _ in found] == [
        ("recall", 1, 0.8, 0.5), ("precision", 1, 0.5, 0.5), ("precision", 0, 0.6, 2 / 3),
    ]  # fmt: skip
    assert found[0][4] == pytest.approx(np.sqrt(0.8 * 0.2 / 2))
    missed, with_margin = constraints.missed(LABELS, PREDICTED, np.ones(5), 2)
    assert missed == pytest.approx(0.3)
    stricter = [0.9, 0.5 + 0.25, 0.8]  # one standard error of 0.28, 0.35 and 0.28 is more than halfway to 1
    assert with_margin == pytest.approx(stricter[0] - 0.5 + stricter[1] - 0.5 + stricter[2] - 2 / 3)
    few = Constraints.make({"no": 0.6}, None, NAMES).missed(np.repeat(LABELS, 100), np.repeat(PREDICTED, 100),
                                                            np.ones(500), 2)  # fmt: skip
    assert few.tolist() == [0.0, 0.0]  # 2/3 is more than 0.6 and a standard error of 0.03


def test_none_are_false() -> None:
    assert not Constraints.make(None, {}, NAMES)


def test_names_come_before_numbers() -> None:
    assert Constraints.make({1: 0.5, 3.0: 0.7}, {"2": 0.6}, ("1", "2", "3")) == Constraints(
        {0: 0.5, 2: 0.7}, {1: 0.6}, ("1", "2", "3")
    )
    assert Constraints.make({1: 0.5, np.int64(2): 0.6}, None, ("0", "1", "2")).recall == {1: 0.5, 2: 0.6}
    assert Constraints.make({True: 0.5}, None, ("False", "True")).recall == {1: 0.5}
    assert Constraints.make(pd.Series({"yes": 0.5}), None, NAMES).recall == {1: 0.5}


@pytest.mark.parametrize(
    ("recall", "message"),
    [({"maybe": 0.5}, "minimum_recall: unknown class 'maybe': choose one of no, yes"),
     ({1: 0.5}, "unknown class 1: choose one of no, yes"), ({"yes": 80}, r"a number in \(0, 1\], got 80"),
     ({"yes": 0}, "got 0"), ({"yes": "x"}, "minimum_recall of class 'yes' must be a number in .*, got 'x'"),
     (0.8, r"minimum_recall must be a dict of class to number, such as \{'fraud': 0.8\}, got 0.8")],
)  # fmt: skip
def test_bad_constraints_are_refused(recall: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        Constraints.make(recall, None, NAMES)
