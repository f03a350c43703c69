"""The aligner of logits, compared with cases by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from energyalign import EnergyAligner, EnergyAlignError, FreeEnergy, Shifts

# Cases small enough to compute by hand are too small to trust, so estimates come with warnings.
pytestmark = pytest.mark.filterwarnings("ignore::energyalign.core.errors.UntrustedEstimateWarning")

# The columns of e^f sum to 12, 8 and 8. The raw model predicts 0, 1, 0, 2.
EXPONENTIALS = np.array([[6, 1, 1], [2, 4, 1], [3, 1, 2.5], [1, 2, 3.5]])
LOGITS = np.log(EXPONENTIALS)


def test_lse_by_hand() -> None:
    """Without labels: the shift of class 0 relative to the rarest class, 2, is log 8 - log 12."""
    aligner = EnergyAligner(estimator="lse", clusters="per-class").fit(LOGITS, counts=[30, 20, 10])
    np.testing.assert_allclose(aligner.shifts_.values, [math.log(2 / 3), 0, 0], atol=1e-12)
    corrected = EXPONENTIALS * [2 / 3, 1, 1]
    np.testing.assert_allclose(aligner.transform(LOGITS), np.log(corrected), atol=1e-12)
    assert aligner.predict(LOGITS).tolist() == [0, 1, 2, 2]
    np.testing.assert_allclose(aligner.predict_proba(LOGITS)[2], np.array([2, 1, 2.5]) / 5.5)
    assert aligner.shifts_.counts.tolist() == [30, 20, 10]
    assert aligner.n_features_in_ == 3


def test_lse_by_hand_with_labels_that_are_not_balanced() -> None:
    """Labels 0, 1, 2, 2: samples weigh 4/3, 4/3, 2/3, 2/3, so that the sums are 40/3, 26/3 and 20/3."""
    aligner = EnergyAligner(estimator="lse", clusters="per-class").fit(LOGITS, [0, 1, 2, 2])
    np.testing.assert_allclose(aligner.shifts_.values, [0, math.log(40 / 26), math.log(2)], atol=1e-12)
    assert aligner.shifts_.counts.tolist() == [1, 1, 2]


def test_marginal_by_hand() -> None:
    """Odds of 6 and 3/2, divided by 3, are 2 and 1/2: the mean posterior is one half."""
    logits = np.log([[6.0, 1.0], [1.5, 1.0]])
    aligner = EnergyAligner(estimator="marginal").fit(logits)
    np.testing.assert_allclose(np.diff(aligner.shifts_.values), math.log(3), atol=1e-9)
    np.testing.assert_allclose(aligner.predict_proba(logits), [[2 / 3, 1 / 3], [1 / 3, 2 / 3]], atol=1e-9)
    assert aligner.predict(logits).tolist() == [0, 1]


def test_prior_by_hand() -> None:
    aligner = EnergyAligner(estimator="prior", tau=2.0).fit(LOGITS, counts=[30, 15, 5])
    np.testing.assert_allclose(aligner.shifts_.values, [2 * math.log(5 / 30), 2 * math.log(5 / 15), 0], atol=1e-12)


def test_none_by_hand() -> None:
    aligner = EnergyAligner(estimator="none").fit(LOGITS)
    np.testing.assert_array_equal(aligner.transform(LOGITS), LOGITS)
    assert aligner.predict(LOGITS).tolist() == [0, 1, 0, 2]


def test_a_target_prior_by_hand() -> None:
    uniform, other = (
        EnergyAligner(estimator="lse", clusters="per-class", target_prior=prior).fit(LOGITS).shifts_.values
        for prior in (None, [2, 1, 1])
    )
    np.testing.assert_allclose(other - uniform, np.log([1.5, 0.75, 0.75]))


@pytest.mark.parametrize("clusters", [1, [0, 0, 0]])
def test_clusters_reach_the_estimate(clusters: Any) -> None:
    aligner = EnergyAligner(estimator="lse", clusters=clusters).fit(LOGITS, counts=[30, 20, 10])
    assert aligner.shifts_.values.tolist() == [0, 0, 0]


def test_weights_are_repetitions() -> None:
    labels, weights = np.array([0, 1, 2, 2]), np.array([1, 3, 0, 2])
    weighted = EnergyAligner(estimator="lse", clusters="per-class").fit(LOGITS, labels, sample_weight=weights)
    repeated = EnergyAligner(estimator="lse", clusters="per-class")
    repeated.fit(np.repeat(LOGITS, weights, axis=0), np.repeat(labels, weights))
    np.testing.assert_allclose(weighted.shifts_.values, repeated.shifts_.values, atol=1e-12)
    np.testing.assert_allclose(weighted.shifts_.standard_errors, repeated.shifts_.standard_errors, atol=1e-12)


@pytest.mark.parametrize("unit", [1 / 300, 0.37, 100.5])
def test_of_weights_that_are_no_numbers_of_samples_only_the_ratios_matter(unit: float) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [200, 70, 30])
    logits = rng.normal(size=(300, 3)) + 2 * np.eye(3)[labels] + np.log([200, 70, 30])
    plain, weighted = (
        EnergyAligner(evidence="held-out", scoring="f1_macro").fit(logits, labels, sample_weight=weights).shifts_
        for weights in (None, np.full(300, unit))
    )
    np.testing.assert_allclose(weighted.values, plain.values, rtol=1e-9)
    assert weighted.selection.gain_error == pytest.approx(plain.selection.gain_error)
    # Twice the weight for half of the samples counts as (Σ w)² / Σ w² samples.
    uneven = EnergyAligner().fit(logits, labels, sample_weight=unit * np.where(np.arange(300) % 2, 2, 1)).shifts_
    assert uneven.n_samples == pytest.approx(450**2 / 750)


def test_the_kind_of_evidence_is_remembered() -> None:
    shifts = EnergyAligner(estimator="lse", evidence="held-out").fit(LOGITS, [0, 1, 2, 2], counts=[3, 2, 1]).shifts_
    assert shifts.evidence_kind == "held-out"


@pytest.mark.filterwarnings("ignore:monotone sharing moves")
def test_groups_are_not_separated() -> None:
    """Each sample has a copy, and `auto` scores as if there were only one of the two."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(40, 3)), np.arange(40) % 3
    logits[np.arange(40), labels] += 1.0

    def scores(copies: int, *, grouped: bool) -> list[float]:
        aligner = EnergyAligner(estimator="marginal", evidence="held-out")
        groups = np.repeat(np.arange(40), copies) if grouped else None
        aligner.fit(np.repeat(logits, copies, axis=0), np.repeat(labels, copies), counts=[9, 4, 1], groups=groups)
        return [candidate.score for candidate in aligner.shifts_.selection.candidates]

    assert scores(2, grouped=True) == pytest.approx(scores(1, grouped=True))
    assert scores(2, grouped=False) != pytest.approx(scores(1, grouped=True))


def test_fit_forgets_what_was_before() -> None:
    aligner = EnergyAligner(estimator="lse", clusters="per-class").fit(LOGITS, list("abcc"))
    aligner.fit(LOGITS[:, :2])
    assert aligner.classes_.tolist() == [0, 1]
    assert aligner.n_features_in_ == 2
    assert aligner.shifts_.counts is None


def test_parameters_and_clones() -> None:
    parameters = {
        "estimator": "prior",
        "clusters": 2,
        "target_prior": [1, 2, 3],
        "evidence": "held-out",
        "tau": 0.5,
        "classes": ["a", "b", "c"],
        "scoring": "balanced_accuracy",
        "costs": None,
        "minimum_recall": None,
        "minimum_precision": None,
        "multilabel": False,
        "ignore_index": 255,
    }
    aligner = EnergyAligner(**parameters)
    assert aligner.get_params() == parameters
    fitted = clone(aligner).fit(LOGITS, counts=[3, 2, 1])
    assert clone(fitted).get_params() == parameters
    assert not hasattr(clone(fitted), "shifts_")
    assert aligner.set_params(tau=1.0).tau == 1.0
    with pytest.raises(TypeError):
        EnergyAligner("lse")  # type: ignore[misc]


def test_fit_transform_is_fit_and_transform() -> None:
    aligner = EnergyAligner(estimator="lse", clusters="per-class")
    np.testing.assert_allclose(aligner.fit_transform(LOGITS), aligner.transform(LOGITS), atol=1e-12)


def test_the_result_can_be_saved_and_put_to_use_elsewhere(tmp_path: Any) -> None:
    aligner = EnergyAligner(estimator="lse").fit(LOGITS, list("abcc"))
    aligner.shifts_.save(tmp_path / "shifts.json")
    loaded = Shifts.load(tmp_path / "shifts.json")
    np.testing.assert_allclose(loaded.apply(LOGITS), aligner.transform(LOGITS), atol=1e-12)
    assert loaded.class_names == ("a", "b", "c")


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba"])
def test_not_fitted(method: str) -> None:
    with pytest.raises(NotFittedError, match="This EnergyAligner instance is not fitted yet"):
        getattr(EnergyAligner(), method)(LOGITS)


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba"])
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_wrong_number_of_columns(method: str, fit: str) -> None:
    aligner = getattr(EnergyAligner(estimator="lse"), fit)(LOGITS)
    with pytest.raises(EnergyAlignError, match="logits has 2 class columns, but 3 were expected"):
        getattr(aligner, method)(LOGITS[:, :2])


def _with(value: float) -> np.ndarray:
    bad = LOGITS.copy()
    bad[2, 1] = value
    return bad


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (_with(np.nan), "NaN at sample 2, class 1"),
        (_with(np.inf), r"\+inf at sample 2, class 1"),
        (np.array(1.0), "two dimensions"),
        (LOGITS[:0], "empty"),
        (LOGITS.astype(int), "floating point, got int64"),
        (LOGITS > 0, "floating point, got bool"),
        ([["a", "b"]], "floating point"),
        (pd.DataFrame(LOGITS.astype(int)), "floating point, got int64"),
    ],
    ids=["nan", "inf", "a number", "no rows", "integers", "booleans", "strings", "integer frame"],
)
@pytest.mark.parametrize("estimator", ["auto", "lse", "marginal", "prior"])
def test_logits_that_cannot_be_used(logits: Any, message: str, estimator: str) -> None:
    counts = [3, 2, 1][: np.shape(logits)[-1] if np.ndim(logits) else 3]
    with pytest.raises(EnergyAlignError, match=message):
        EnergyAligner(estimator=estimator).fit(logits, counts=counts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "magic"}, "unknown estimator 'magic': choose lse, marginal, shrunk, prior, none, auto"),
        ({"clusters": "some"}, "unknown clusters 'some'"),
        ({"evidence": "test"}, "unknown kind of evidence 'test': choose training, out-of-fold, held-out"),
        ({"target_prior": [1, 2]}, r"target prior must have shape \(3,\)"),
        ({"estimator": "prior"}, "needs the training counts per class"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_options_that_cannot_be_used(options: dict[str, Any], message: str, fit: str) -> None:
    aligner = EnergyAligner(**{"estimator": "lse", **options})
    with pytest.raises(EnergyAlignError, match=message):
        getattr(aligner, fit)(LOGITS).transform(LOGITS)


def test_a_stream_by_hand() -> None:
    """The result is read after each block, and later blocks are added to the same energies."""
    aligner = EnergyAligner(estimator="lse", clusters="per-class", classes=["a", "b", "c"])
    aligner.partial_fit(LOGITS[:2])
    np.testing.assert_allclose(aligner.shifts_.values, np.log([1, 8 / 5, 8 / 2]), atol=1e-12)
    aligner.partial_fit(LOGITS[2:])
    np.testing.assert_allclose(aligner.shifts_.values, np.log([1, 12 / 8, 12 / 8]), atol=1e-12)
    assert aligner.predict(LOGITS).tolist() == ["a", "b", "c", "c"]
    np.testing.assert_allclose(aligner.predict_proba(LOGITS)[2], np.array([2, 1, 2.5]) / 5.5)
    assert aligner.shifts_.class_names == ("a", "b", "c")
    assert isinstance(aligner.energy_, FreeEnergy)
    assert aligner.energy_.n_samples == 4


@pytest.mark.parametrize("clusters", ["per-class", "monotone", 2])
def test_a_stream_in_blocks_is_the_fit_of_the_whole(clusters: Any) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(loc=[2, 1, 0], size=(60, 3)), np.arange(60) % 3
    options = {"estimator": "lse", "clusters": clusters, "evidence": "held-out"}
    whole = EnergyAligner(**options).fit(logits, labels, counts=[9, 4, 1]).shifts_
    stream = EnergyAligner(**options).partial_fit(logits[:1], counts=[9, 4, 1])
    for start, stop in ((1, 20), (20, 59), (59, 60)):
        stream.partial_fit(logits[start:stop], labels[start:stop])
    np.testing.assert_allclose(stream.shifts_.values, whole.values, atol=1e-12)
    np.testing.assert_allclose(stream.shifts_.standard_errors, whole.standard_errors, atol=1e-12)
    assert stream.shifts_.clusters == whole.clusters
    assert stream.shifts_.evidence_kind == whole.evidence_kind == "held-out"
    assert stream.shifts_.counts.tolist() == [9, 4, 1]


def test_weights_balance_a_stream_as_labels_do_a_fit() -> None:
    labels = np.array([0, 1, 2, 2])
    fitted = EnergyAligner(estimator="lse", clusters="per-class").fit(LOGITS, labels, counts=[3, 2, 1])
    weights = np.array([4 / 3, 4 / 3, 2 / 3, 2 / 3])
    stream = EnergyAligner(estimator="lse", clusters="per-class").partial_fit(
        LOGITS, sample_weight=weights, counts=[3, 2, 1]
    )
    np.testing.assert_allclose(stream.shifts_.values, fitted.shifts_.values, atol=1e-12)


def test_marginal_cannot_be_streamed() -> None:
    aligner = EnergyAligner(estimator="marginal").partial_fit(LOGITS)
    with pytest.raises(EnergyAlignError, match="has only energies: use estimator 'lse' or 'prior'"):
        aligner.transform(LOGITS)


def test_auto_on_a_stream_leaves_marginal_out() -> None:
    logits = np.random.default_rng(0).normal(loc=[1, 0, 0], size=(200, 3))
    shifts = EnergyAligner().partial_fit(logits).shifts_
    assert shifts.estimator == "lse"
    problems = {c.estimator: c.problem for c in shifts.selection.candidates}
    assert "needs the logits" in problems["marginal"]
    assert problems["lse"] is None


def test_a_block_with_another_number_of_columns() -> None:
    aligner = EnergyAligner(estimator="lse").partial_fit(LOGITS)
    with pytest.raises(EnergyAlignError, match="logits has 2 class columns, but 3 were expected"):
        aligner.partial_fit(LOGITS[:, :2])


def test_a_fit_ends_a_stream() -> None:
    aligner = EnergyAligner(estimator="lse", clusters="per-class").partial_fit(LOGITS, counts=[3, 2, 1]).fit(LOGITS)
    assert not hasattr(aligner, "energy_")
    aligner.partial_fit(LOGITS[:2, :2])
    assert aligner.energy_.n_samples == 2
    np.testing.assert_allclose(aligner.shifts_.values, np.log([1, 8 / 5]), atol=1e-12)
    assert aligner.shifts_.counts is None
