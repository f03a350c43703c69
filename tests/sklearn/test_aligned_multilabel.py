"""Independent labels: one shift per label, from folds, for all forms of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError
from energyalign.sklearn.unseen import _has_known_labels, _rarest_label

pytestmark = pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
NAMES = ["rain", "fog", "wind"]


def problem(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = (rng.random((n, 3)) < [0.3, 0.1, 0.5]).astype(np.int64)
    return y + 0.7 * rng.normal(size=(n, 3)), y


def log_odds(model: Any, X: np.ndarray) -> np.ndarray:
    """Return log-odds of a model with a list of probabilities or a matrix."""
    found = model.predict_proba(X)
    present = np.column_stack([own[:, 1] for own in found]) if isinstance(found, list) else found
    return logit(np.clip(present, 1e-6, 1 - 1e-6))


def test_it_is_the_aligner_on_scores_out_of_fold() -> None:
    X, y = problem()
    base, folds = OneVsRestClassifier(LogisticRegression()), list(KFold(5).split(X))
    model = EnergyAlignedClassifier(base, cv=folds, scoring="f1").fit(X, y)
    scores = cross_val_predict(base, X, y, cv=folds, method="decision_function")
    fold_of = np.concatenate([np.full(len(test), k) for k, (_, test) in enumerate(folds)])
    counts = np.column_stack([(1 - y).sum(axis=0), y.sum(axis=0)])
    aligner = EnergyAligner(multilabel=True, evidence="out-of-fold", scoring="f1")
    expected = aligner.fit(scores, y, counts=counts, groups=fold_of).shifts_
    np.testing.assert_allclose(model.shifts_.values, expected.values, rtol=1e-12)
    corrected = base.fit(X, y).decision_function(X) + expected.values
    np.testing.assert_allclose(model.decision_function(X), corrected)
    np.testing.assert_array_equal(model.predict(X), corrected > 0)
    np.testing.assert_allclose(model.predict_proba(X), expit(corrected))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), expit(corrected))


@pytest.mark.parametrize(
    "base",
    [
        RandomForestClassifier(20, max_depth=4, random_state=0),
        KNeighborsClassifier(20),
        MLPClassifier((8,), max_iter=60, random_state=0),
    ],
    ids=["list of a forest", "list of neighbours", "matrix of a network"],
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_probabilities_of_any_form(base: Any) -> None:
    X, y = problem()
    model = EnergyAlignedClassifier(base, cv=3).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), log_odds(model.estimator_, X) + model.shifts_.values, rtol=1e-5, atol=1e-5
    )
    raw, rare = model.estimator_.predict(X), y[:, 1] == 1
    assert model.predict(X)[rare, 1].mean() >= raw[rare, 1].mean() + 0.05
    assert model.predict(X).shape == y.shape


def test_two_labels_are_not_two_classes() -> None:
    X, y = problem()
    model = EnergyAlignedClassifier(KNeighborsClassifier(20), cv=3).fit(X, y[:, :2])
    assert model.decision_function(X).shape == (len(X), 2)


def test_names_and_a_frozen_classifier() -> None:
    X, y = problem()
    frame = pd.DataFrame(y.astype(bool), columns=NAMES)
    base = FrozenEstimator(RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:200], y[:200]))
    model = EnergyAlignedClassifier(base, minimum_recall={"fog": 0.7}).fit(X[200:], frame[200:])
    assert model.classes_.tolist() == NAMES
    assert model.shifts_.class_names == tuple(NAMES)
    assert model.predict(X[200:])[y[200:, 1] == 1, 1].mean() >= 0.7
    without_fog = X[200:][y[200:, 1] == 0], y[200:][y[200:, 1] == 0]
    aligned = EnergyAlignedClassifier(base).fit(*without_fog)
    assert any("label 1: there is no labelled evidence" in concern for concern in aligned.shifts_.concerns)


def test_one_label_each_is_one_hot_unless_it_is_said() -> None:
    X, y = problem()
    single = np.eye(3, dtype=int)[y[:, 0] + y[:, 1]]
    assert EnergyAlignedClassifier(cv=3).fit(X, single).predict(X).shape == (len(X),)
    base, aligner = OneVsRestClassifier(LogisticRegression()), EnergyAligner(multilabel=True, estimator="prior")
    model = EnergyAlignedClassifier(base, aligner=aligner, cv=3).fit(X, single)
    assert model.predict(X).shape == single.shape
    np.testing.assert_allclose(model.shifts_.values, -logit(single.mean(axis=0)))


def test_folds_are_stratified_by_the_rarest_label() -> None:
    y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0]])  # 3, 2 and 1 samples
    assert _rarest_label(y).tolist() == [1, 0, -1, 2, 1]
    assert _has_known_labels(y[:4], y[4:]).tolist() == [False, False, True, False]
    assert _has_known_labels(y[3:], y[:3]).tolist() == [False, True]


def test_a_label_of_one_sample_is_trained_on_and_not_scored() -> None:
    X, y = problem()
    y[:, 1] = 0
    y[7, 1] = 1
    aligner = EnergyAligner(estimator="prior")
    model = EnergyAlignedClassifier(RandomForestClassifier(20, random_state=0), aligner=aligner, cv=3).fit(X, y)
    assert model.shifts_.values[1] == pytest.approx(-logit(1 / 400))
    assert model.shifts_.labels[1].n_samples == 399


def test_skl2onnx_is_refused() -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    X, y = problem()
    aligner = EnergyAligner(estimator="prior")
    model = EnergyAlignedClassifier(KNeighborsClassifier(20), aligner=aligner, cv=3).fit(X, y)
    with pytest.raises(EnergyAlignError, match="conversion of independent labels with skl2onnx is not supported"):
        skl2onnx.to_onnx(model, X[:1])
