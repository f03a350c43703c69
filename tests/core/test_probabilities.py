"""Probabilities are recognised, rounded ones too; logits are not mistaken for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.probabilities import MIN_PROBABILITY, are_probabilities, log_probabilities
from energyalign.core.shifts import Shifts

RNG = np.random.default_rng(0)
LABELS = np.arange(120) % 5
LOGITS = 2 * RNG.normal(size=(120, 5)) + 3 * np.eye(5)[LABELS] + np.log([100, 50, 20, 10, 5])
PROBABILITIES = softmax(LOGITS, axis=1)


@pytest.mark.parametrize(("dtype", "digits"), [(d, n) for d in ("f4", "f8") for n in (2, 3, 4, 12)] + [("f2", 12)])
def test_rounded_ones_too(dtype: str, digits: int) -> None:
    assert are_probabilities(PROBABILITIES.round(digits).astype(dtype))


@pytest.mark.parametrize("digits", [0, 1, 2, 12])
def test_percentages_are_probabilities(digits: int) -> None:
    per_cent = (100 * PROBABILITIES).round(digits)
    assert are_probabilities(per_cent)
    assert are_probabilities(per_cent.astype("f4"))
    np.testing.assert_allclose(log_probabilities(per_cent), log_probabilities(per_cent / 100), atol=1e-12)


def test_shifts_of_percentages_are_those_of_probabilities() -> None:
    found = []
    for scores in (PROBABILITIES, 100 * PROBABILITIES):
        with pytest.warns(UntrustedEstimateWarning, match="logarithms"):
            found.append(fit_shifts(Evidence.from_arrays(scores, LABELS, kind="held-out"), estimator="marginal"))
    of_shares, of_per_cent = found
    np.testing.assert_allclose(of_per_cent.values, of_shares.values, atol=1e-9)
    for scores in (100 * PROBABILITIES, PROBABILITIES, np.log(PROBABILITIES), 100 * PROBABILITIES[:1].round(2)):
        np.testing.assert_array_equal(of_per_cent.predict(scores), of_shares.predict(PROBABILITIES)[: len(scores)])
    with pytest.raises(EnergyAlignError, match="0 to 100 %"):
        of_per_cent.predict(np.array([[90.0, 0.0, -1.0, 3.0, 3.0]]))


@pytest.mark.parametrize("n_classes", [2, 10, 300])
def test_of_many_classes(n_classes: int) -> None:
    probabilities = softmax(3 * RNG.normal(size=(100, n_classes)), axis=1)
    assert are_probabilities(probabilities)
    assert are_probabilities(probabilities.round(4))


@pytest.mark.parametrize(
    "scores",
    [
        LOGITS,
        np.abs(LOGITS),
        20 + RNG.normal(size=(50, 5)),
        log_softmax(LOGITS, axis=1),
        np.zeros((50, 300)),
        RNG.uniform(size=(50, 2)),
        RNG.uniform(size=(50, 2)).round(2),
        PROBABILITIES[:3].round(3),
        np.zeros((0, 5)),
        np.ones((9, 1)),
        np.where(np.eye(5)[LABELS] > 0, np.nan, PROBABILITIES),
        np.where(np.eye(5)[LABELS] > 0, np.inf, 0.0),
    ],
    ids=[
        "logits",
        "positive",
        "sums near 100",
        "logarithms",
        "zeros",
        "uniform",
        "rounded",
        "few rows that were rounded",
        "no rows",
        "one column",
        "nan",
        "inf",
    ],
)
def test_other_scores_are_none(scores: np.ndarray) -> None:
    assert not are_probabilities(scores)


def test_the_logarithm_of_zero_is_finite() -> None:
    logarithms = log_probabilities(np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(logarithms, np.log([[1.0, MIN_PROBABILITY]]), atol=2e-6)


@pytest.mark.parametrize("make", [np.asarray, "torch"])
def test_shifts_of_logits_correct_probabilities_with_a_warning(make: Any) -> None:
    if make == "torch":
        make = pytest.importorskip("torch").tensor
    shifts = fit_shifts(Evidence.from_arrays(LOGITS, LABELS, kind="held-out"), estimator="marginal")
    for method in ("predict", "predict_proba"):
        with pytest.warns(UntrustedEstimateWarning, match="their logarithms were taken as logits"):
            found = getattr(shifts, method)(make(PROBABILITIES))
        np.testing.assert_allclose(np.asarray(found), getattr(shifts, method)(LOGITS), atol=1e-4)
    given = PROBABILITIES.copy()
    with pytest.warns(UntrustedEstimateWarning, match="logarithms"):
        assert shifts.apply(given, inplace=True) is given
    np.testing.assert_allclose(given, log_probabilities(PROBABILITIES) + shifts.values)


def test_shifts_of_probabilities_know_what_they_correct_also_in_a_file(tmp_path: Any) -> None:
    with pytest.warns(UntrustedEstimateWarning, match="logarithms"):
        shifts = fit_shifts(Evidence.from_arrays(PROBABILITIES, LABELS, kind="held-out"), estimator="marginal")
    shifts.save(tmp_path / "shifts.json")
    loaded = Shifts.load(tmp_path / "shifts.json")
    expected = shifts.predict(np.log(PROBABILITIES))
    for each in (shifts, loaded):
        assert each.predict(PROBABILITIES).tolist() == expected.tolist()
        assert [int(each.predict(row[None])[0]) for row in PROBABILITIES] == expected.tolist()
    assert not np.array_equal(expected, PROBABILITIES.argmax(axis=1))
    with pytest.raises(EnergyAlignError, match="fitted on probabilities: expected probabilities"):
        shifts.predict(LOGITS)


@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
@pytest.mark.parametrize("fitted_on", [LOGITS, PROBABILITIES], ids=["logits", "probabilities"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_row_alone_is_predicted_as_among_others(fitted_on: np.ndarray, dtype: str) -> None:
    shifts = fit_shifts(Evidence.from_arrays(fitted_on, LABELS, kind="held-out"), estimator="marginal")
    for scores in (PROBABILITIES.astype(dtype), np.log(PROBABILITIES).astype(dtype)):
        together = shifts.apply(scores)
        for k in (1, 2, 5):
            np.testing.assert_allclose(
                np.concatenate([shifts.apply(scores[i : i + k]) for i in range(0, 120, k)]), together
            )


@pytest.mark.parametrize("fitted_on", ["logits", "probabilities"])
@pytest.mark.parametrize("shape", [(12, 10, 5), (12, 5, 2, 5)], ids=["tokens", "pixels"])
@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_probabilities_of_other_heads(fitted_on: str, shape: tuple[int, ...]) -> None:
    def in_form(rows: np.ndarray) -> np.ndarray:
        if len(shape) == 3:
            return rows.reshape(shape)
        return np.moveaxis(rows.reshape(12, 2, 5, 5), -1, 1)

    scores = LOGITS if fitted_on == "logits" else PROBABILITIES
    labels = LABELS.reshape(12, 10) if len(shape) == 3 else LABELS.reshape(12, 2, 5)
    shifts = fit_shifts(Evidence.from_arrays(in_form(scores), labels, kind="held-out"), estimator="marginal")
    assert shifts.from_probabilities == (fitted_on == "probabilities")
    given = in_form(PROBABILITIES)
    np.testing.assert_allclose(shifts.apply(given), in_form(shifts.apply(PROBABILITIES)))
    np.testing.assert_array_equal(shifts.predict(given).ravel(), shifts.predict(PROBABILITIES))
    np.testing.assert_allclose(shifts.predict_proba(given[:1]), in_form(shifts.predict_proba(PROBABILITIES))[:1])
