"""The target prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from energyalign.core.checks import check_target_prior
from energyalign.core.errors import EnergyAlignError


def test_uniform_unless_given() -> None:
    assert check_target_prior(None, 4).tolist() == [0.25] * 4


def test_any_positive_scale_is_accepted() -> None:
    assert check_target_prior([6, 3, 1], 3) == pytest.approx([0.6, 0.3, 0.1])
    assert check_target_prior(np.array([6e-9, 3e-9, 1e-9]), 3).sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.5], r"must have shape \(3,\), one per class, got \(2,\)"),
        ([[0.2, 0.3, 0.5]], r"must have shape \(3,\)"),
        ([0.5, 0.0, 0.5], r"must be positive; wrong for class 1 \(counted from 0\)"),
        ([0.5, -0.1, np.nan], "wrong for classes 1, 2 "),
        ([np.inf, 0.5, 0.5], "wrong for class 0 "),
    ],
)
def test_what_is_no_distribution(prior: Any, message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        check_target_prior(prior, 3)
