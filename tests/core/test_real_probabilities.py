"""Real frequencies compared with Bayes' rule for normal distributions, and with trainings on re-sampled data."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from energyalign import EnergyAligner, EnergyAlignError, real_probabilities
from energyalign.core.errors import BadValueError

CENTRES = np.array([0.0, 1.5, -2.0])


def posterior(x: np.ndarray, prior: Any) -> np.ndarray:
    """Return the posterior of normal distributions of width 1 around the centres, in closed form."""
    prior = np.asarray(prior, dtype=float)
    joint = norm.pdf(x[:, None], CENTRES[: len(prior)]) * prior
    return joint / joint.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("trained_on", "real"), [([1, 1], [0.97, 0.03]), ([300, 100], [5000, 20]), ([50, 20, 30], [0.9, 0.09, 0.01])]
)
def test_the_posterior_of_normal_clouds(trained_on: Any, real: Any) -> None:
    x = np.linspace(-5, 5, 101)
    found = real_probabilities(posterior(x, trained_on), trained_on=trained_on, real=real)
    np.testing.assert_allclose(found, posterior(x, real), rtol=1e-12)


def test_a_vector_is_about_the_second_class() -> None:
    x = np.linspace(-5, 5, 101)
    found = real_probabilities(posterior(x, [1, 1])[:, 1], trained_on=[1, 1], real=[0.97, 0.03])
    np.testing.assert_allclose(found, posterior(x, [0.97, 0.03])[:, 1], rtol=1e-9)


def test_the_formula_of_undersampling_and_of_scale_pos_weight() -> None:
    """As users write it: b p / (b p + 1 - p), for a kept share b of negatives or positives weighted by 1 / b."""
    p, b, counts = np.linspace(0, 1, 21), 0.05, np.array([1000.0, 30.0])
    wanted = b * p / (b * p + 1 - p)
    for trained_on in (counts * [b, 1], counts * [1, 1 / b]):
        np.testing.assert_allclose(real_probabilities(p, trained_on=trained_on, real=counts), wanted, rtol=1e-12)


@pytest.mark.parametrize("how", ["class weights", "oversampled", "undersampled"])
def test_a_logistic_regression_of_changed_frequencies(how: str) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(60_000) < 0.04).astype(int)
    x = rng.normal(size=len(y)) + CENTRES[y]
    counts = np.bincount(y)
    model, rows, trained_on = LogisticRegression(C=1e6), np.arange(len(y)), counts.astype(float)
    if how == "class weights":
        model.set_params(class_weight="balanced")
        trained_on = np.ones(2)
    elif how == "oversampled":
        rows = np.concatenate([rows, rng.choice(np.flatnonzero(y), 10 * counts[1])])
        trained_on = counts * [1, 11]
    else:
        rows = np.concatenate([np.flatnonzero(y), np.flatnonzero(y == 0)[: counts[1]]])
        trained_on = np.bincount(y[rows])
    raw = model.fit(x[rows, None], y[rows]).predict_proba(x[:, None])
    found = real_probabilities(raw, trained_on=trained_on, real=counts)
    wanted = posterior(x, [0.96, 0.04])
    assert np.abs(raw - wanted).mean() > 0.1
    assert np.abs(found - wanted).mean() < 0.005
    assert found[:, 1].mean() == pytest.approx(0.04, abs=0.004)


def test_it_is_the_estimator_prior_with_a_target() -> None:
    """For logits, shifts do the same and can be folded into a model."""
    logits = np.random.default_rng(0).normal(size=(20, 3))
    raw = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    trained_on, real = [10, 20, 30], [0.7, 0.2, 0.1]
    aligner = EnergyAligner(estimator="prior", clusters="per-class", target_prior=real).fit(logits, counts=trained_on)
    found = real_probabilities(raw, trained_on=trained_on, real=real)
    np.testing.assert_allclose(aligner.predict_proba(logits), found)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_there_and_back_again(p: list[float], a: float, b: float) -> None:
    there = real_probabilities(np.array(p), trained_on=[1, a], real=[1, b])
    assert np.all((there >= 0) & (there <= 1))
    back = real_probabilities(there, trained_on=[1, b], real=[1, a])
    ratio = max(a / b, b / a, 1.0)
    np.testing.assert_allclose(back, p, atol=1e-15 * ratio + 1e-12)


def test_arrays_of_other_kinds() -> None:
    p = np.array([[0.5, 0.5], [0.1, 0.9]], dtype=np.float32)
    options = {"trained_on": [1, 1], "real": [9, 1]}
    wanted = real_probabilities(p, **options)
    assert wanted.dtype == np.float32
    strict = real_probabilities(array_api_strict.asarray(p), **options)
    np.testing.assert_array_equal(np.asarray(strict), wanted)
    np.testing.assert_array_equal(real_probabilities(pd.DataFrame(p), **options), wanted)
    np.testing.assert_allclose(real_probabilities(p.tolist(), **options), wanted, rtol=1e-6)


def test_frequencies_are_matched_by_name() -> None:
    p, names = np.array([[0.5, 0.3, 0.2]]), ["ok", "late", "fraud"]
    trained_on, real = [4, 3, 3], [90, 9, 1]
    wanted = real_probabilities(p, trained_on=trained_on, real=real)
    frame = pd.DataFrame(p, columns=names)
    series = [pd.Series(each, index=names).sort_index() for each in (trained_on, real)]
    np.testing.assert_array_equal(real_probabilities(frame, trained_on=series[0], real=dict(series[1])), wanted)
    numbers = pd.Series([2] * 5 + [0] * 3 + [1] * 2).value_counts()  # by frequency: 2, 0, 1
    np.testing.assert_array_equal(
        real_probabilities(p, trained_on=numbers, real=[1, 1, 1]),
        real_probabilities(p, trained_on=[3, 2, 5], real=[1, 1, 1]),
    )
    with pytest.raises(EnergyAlignError, match=r"real: the classes are \[fraud, late, ok\], but .* are \[a, b, c\]"):
        real_probabilities(frame.set_axis(list("abc"), axis=1), trained_on=[1, 1, 1], real=series[1])
    with pytest.raises(
        EnergyAlignError, match=r"trained_on: the classes are \[ok, late\], in no sorted order.*a data frame"
    ):
        real_probabilities(p[:, :2] / 0.8, trained_on={"ok": 1, "late": 2}, real=[1, 1])


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([[0.5, 0.5], [2.0, -1.0]], "row 1 must have probabilities"),
        ([[0.5, 0.5], [0.5, 0.6]], "row 1 must have probabilities"),
        ([0.2, np.nan], "row 1 must have probabilities"),
        ([[0.2], [0.7]], "one number per sample as a vector"),
    ],
)
def test_what_is_no_probability_is_refused(probabilities: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        real_probabilities(np.array(probabilities), trained_on=[1, 1], real=[9, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": np.array([0, 1])}, "probabilities must be a floating array"),
        ({"probabilities": np.zeros((2, 2, 2))}, r"of shape \(2, 2, 2\)"),
        ({"trained_on": [1, 0]}, "training counts must be positive; wrong for class 1"),
        ({"real": [1, 2, 3]}, r"target prior must have shape \(2,\)"),
    ],
)
def test_other_bad_input(change: dict[str, Any], message: str) -> None:
    options = {"probabilities": np.array([0.5]), "trained_on": [1, 1], "real": [9, 1], **change}
    with pytest.raises(EnergyAlignError, match=message):
        real_probabilities(options.pop("probabilities"), **options)
