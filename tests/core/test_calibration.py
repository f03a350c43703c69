"""Calibration by hand and sample by sample; temperatures with known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from energyalign.core import calibration
from energyalign.core.calibration import fit_temperature, measure_calibration

# Largest probabilities 0.8, 0.8, 0.6 and 0.5; the second is wrong.
PROBABILITIES = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.25, 0.25]])
LABELS = np.array([0, 2, 2, 0])


def test_by_hand() -> None:
    measured = measure_calibration(np.log(PROBABILITIES), LABELS)
    # Of 15 bins: 0.8 is in the 13th (or 12th, by rounding), half of them right; 0.6 in the 10th (or 9th); 0.5 in the
    # 8th.
    assert measured.samples.sum() == 4
    assert measured.samples[11:13].sum() == 2
    assert measured.right[11:13].sum() == 1
    assert measured.ece == pytest.approx((abs(1 - 1.6) + abs(1 - 0.6) + abs(1 - 0.5)) / 4)
    assert measured.nll == pytest.approx(-(math.log(0.8) + math.log(0.1) + math.log(0.6) + math.log(0.5)) / 4)
    squares = (0.04 + 0.01 + 0.01, 0.01 + 0.64 + 0.81, 0.04 + 0.04 + 0.16, 0.25 + 0.0625 + 0.0625)
    assert measured.brier == pytest.approx(sum(squares) / 4)


def test_sure_and_right_is_perfect() -> None:
    measured = measure_calibration(100.0 * np.eye(3), np.arange(3))
    assert (measured.ece, measured.nll, measured.brier) == pytest.approx((0, 0, 0), abs=1e-12)
    assert measured.samples[-1] == 3  # a confidence of 1 is in the last bin


def test_a_masked_true_class_has_no_likelihood() -> None:
    measured = measure_calibration(np.array([[0.0, -np.inf]]), np.array([1]))
    assert measured.nll == math.inf
    assert (measured.ece, measured.brier) == (1, 2)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(50, 4)).astype(np.float32), random.integers(0, 4, 50)
    whole = measure_calibration(logits, labels)
    monkeypatch.setattr(calibration, "_NUMBERS_PER_BLOCK", 12)
    for one, other in zip(whole, measure_calibration(logits, labels), strict=True):
        np.testing.assert_allclose(one, other)
    assert fit_temperature([(logits, labels)]) == pytest.approx(
        fit_temperature([(logits[:9], labels[:9]), (logits[9:], labels[9:])])
    )


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_temperature_makes_the_likelihood_largest(scale: float) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(400, 5)) * 2
    labels = np.array([random.choice(5, p=row) for row in softmax(logits, axis=1)])
    fitted = fit_temperature([(scale * logits, labels)])
    assert fitted == pytest.approx(scale, rel=0.2)  # the labels were drawn at temperature 1
    best = minimize_scalar(
        lambda log: measure_calibration(scale * logits / np.exp(log), labels).nll,
        bracket=(math.log(scale) - 1, math.log(scale) + 1),
    )
    assert fitted == pytest.approx(math.exp(best.x), rel=1e-4)


def test_temperatures_stay_finite() -> None:
    assert 0 < fit_temperature([(np.eye(3), np.arange(3))]) < 0.1  # perfectly right: as sure as can be
    assert 10 < fit_temperature([(np.eye(3), (np.arange(3) + 1) % 3)]) < math.inf  # always wrong
    assert fit_temperature([(np.zeros((3, 3)), np.arange(3))]) == 1  # says nothing
    masked = np.array([[-np.inf, 1.0, 0.0], [-np.inf, 1.0, 0.0], [-np.inf, 1.0, 0.0]])
    assert fit_temperature([(masked, np.array([1, 1, 2]))]) == pytest.approx(1 / math.log(2))  # odds of 2 to 1
