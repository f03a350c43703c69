"""The label distribution of unlabelled data, estimated by expectation maximisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.shifts import Shifts
from energyalign.core.target_prior import estimate_target_prior

COUNTS = np.array([500.0, 100, 20, 5])
TRUE_SHIFTS = -np.log(COUNTS / COUNTS.sum())


def target_data(simulate: Callable[..., Any], seed: int, per_class: list[int]) -> np.ndarray:
    return simulate(COUNTS, per_class, seed=seed, separation=2.5)[0]


@pytest.mark.parametrize("per_class", [[1000, 1000, 1000, 1000], [2400, 1200, 320, 80], [40, 160, 800, 3000]])
def test_a_known_prior_is_recovered(
    simulate: Callable[..., Any], plain_shifts: Callable[..., Shifts], per_class: list[int]
) -> None:
    found = estimate_target_prior(target_data(simulate, 0, per_class), plain_shifts(TRUE_SHIFTS))
    # 4,000 samples: the standard error of a share is below √(0.25 / 4000) = 0.008, and overlap adds to it.
    np.testing.assert_allclose(found, np.array(per_class) / 4000, atol=0.025)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_it_is_the_mean_posterior_under_itself(
    simulate: Callable[..., Any], plain_shifts: Callable[..., Shifts]
) -> None:
    logits, shifts = target_data(simulate, 1, [300, 100, 50, 150]), plain_shifts(TRUE_SHIFTS)
    found = estimate_target_prior(logits, shifts, tolerance=1e-10)
    np.testing.assert_allclose(shifts.with_target(found).predict_proba(logits).mean(0), found, atol=1e-9)


def test_it_maximises_the_likelihood_of_the_mixture(
    simulate: Callable[..., Any], plain_shifts: Callable[..., Shifts]
) -> None:
    logits = target_data(simulate, 2, [300, 100, 50, 150])
    likelihood = softmax(logits + TRUE_SHIFTS, axis=1)  # ∝ p(x|k) for each sample

    def loss(free: np.ndarray) -> float:
        return float(-np.log(likelihood @ softmax([0, *free])).mean())

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    found = estimate_target_prior(logits, plain_shifts(TRUE_SHIFTS), tolerance=1e-10)
    np.testing.assert_allclose(found, softmax([0, *best.x]), atol=1e-5)


def test_the_start_does_not_matter(simulate: Callable[..., Any], plain_shifts: Callable[..., Shifts]) -> None:
    logits, shifts = target_data(simulate, 3, [100, 50, 30, 20]), plain_shifts(TRUE_SHIFTS)
    one = estimate_target_prior(logits, shifts, tolerance=1e-11)
    two = estimate_target_prior(logits, shifts.with_target([0.01, 0.01, 0.08, 0.9]), tolerance=1e-11)
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_labels_are_not_looked_at(simulate: Callable[..., Any], plain_shifts: Callable[..., Shifts]) -> None:
    logits, shifts = target_data(simulate, 4, [100, 50, 30, 20]), plain_shifts(TRUE_SHIFTS)
    labelled = Evidence.from_arrays(logits, np.arange(200) % 4, counts=COUNTS)
    np.testing.assert_array_equal(
        estimate_target_prior(labelled, shifts), estimate_target_prior(Evidence.from_arrays(logits), shifts)
    )


def test_a_class_that_does_not_occur_dies_out(plain_shifts: Callable[..., Shifts]) -> None:
    logits = np.array([[0.0, 0.0, -40.0], [2.0, 0.0, -40.0], [0.0, 3.0, -np.inf]])
    found = estimate_target_prior(logits, plain_shifts([0.0, 0.0, 0.0]))
    assert found[2] < 1e-12
    assert found.sum() == pytest.approx(1)


def test_what_does_not_settle_is_said(
    simulate: Callable[..., Any], plain_shifts: Callable[..., Shifts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("energyalign.core.target_prior._MAX_ITERATIONS", 3)
    with pytest.raises(EnergyAlignError, match=r"did not converge in 3 iterations: raise the tolerance \(1e-12\)"):
        estimate_target_prior(target_data(simulate, 5, [90, 5, 3, 2]), plain_shifts(TRUE_SHIFTS), tolerance=1e-12)


def test_another_number_of_classes(plain_shifts: Callable[..., Shifts]) -> None:
    with pytest.raises(EnergyAlignError, match="must have 3 class columns like the shifts, got 2"):
        estimate_target_prior(np.zeros((4, 2)), plain_shifts([0.0, 0.0, 0.0]))
