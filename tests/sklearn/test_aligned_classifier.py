"""The meta-estimator wherever scikit-learn accepts classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError

Problem = tuple[np.ndarray, np.ndarray]
NAMES = np.array(["ant", "bee", "cow"])


def gain(model: Any, raw: Any, train: Any, test: Any) -> float:
    """Return the gain in balanced accuracy."""
    scores = [balanced_accuracy_score(test[1], clone(m).fit(*train).predict(test[0])) for m in (model, raw)]
    return scores[0] - scores[1]


def test_corrected_logits_are_the_classifier_s_plus_the_shifts(long_tail: Problem) -> None:
    X, y = long_tail
    model = EnergyAlignedClassifier().fit(X, y)
    corrected = LogisticRegression().fit(X, y).decision_function(X) + model.shifts_.values
    np.testing.assert_allclose(model.decision_function(X), corrected)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(corrected) / np.exp(corrected).sum(1, keepdims=True))
    np.testing.assert_array_equal(model.predict(X), corrected.argmax(axis=1))


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_of_two_classes_the_decision_is_their_difference(blobs: Any) -> None:
    X, y = blobs([90, 10])
    model = EnergyAlignedClassifier(LogisticRegression()).fit(X, y)
    common, rare = model.shifts_.values
    assert rare - common > 1.0
    decision = model.decision_function(X)
    np.testing.assert_allclose(decision, LogisticRegression().fit(X, y).decision_function(X) + rare - common)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-decision)))
    np.testing.assert_array_equal(model.predict(X), decision > 0)


def test_the_same_problem_with_names_for_labels(long_tail: Problem) -> None:
    X, y = long_tail
    numbers, names = (EnergyAlignedClassifier().fit(X, labels) for labels in (y, NAMES[y]))
    np.testing.assert_array_equal(names.classes_, NAMES)
    np.testing.assert_allclose(names.shifts_.values, numbers.shifts_.values, atol=1e-12)
    np.testing.assert_array_equal(names.predict(X), NAMES[numbers.predict(X)])
    assert names.shifts_.class_names == tuple(NAMES)


@pytest.mark.parametrize("values", [[-1, 1], [False, True], [3, 7], ["no", "yes"]])
@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_two_classes_of_any_labels(values: list[Any], blobs: Any) -> None:
    X, y = blobs([90, 10])
    model = EnergyAlignedClassifier().fit(X, np.array(values)[y])
    assert model.classes_.tolist() == values
    expected = EnergyAlignedClassifier().fit(X, y).predict(X)
    np.testing.assert_array_equal(model.predict(X), np.array(values)[expected])


@pytest.mark.parametrize("base", [LogisticRegression(), GaussianNB()])
def test_few_rows_are_predicted_as_many_are(base: Any, long_tail: Problem, balanced: Problem) -> None:
    model = EnergyAlignedClassifier(base).fit(*long_tail)
    many = model.predict(balanced[0])
    for n_rows in (1, 7, 1000, 1001):
        few = model.predict(balanced[0][:n_rows])
        np.testing.assert_array_equal(few, many[:n_rows])
        assert few.dtype == many.dtype


def test_a_score_that_is_nan_is_refused(long_tail: Problem) -> None:
    model = EnergyAlignedClassifier().fit(*long_tail)
    model.estimator_.intercept_[1] = np.nan
    with pytest.raises(EnergyAlignError, match="logits to correct have NaN"):
        model.predict(long_tail[0][:2])


def test_training_counts_are_those_of_y(long_tail: Problem) -> None:
    shifts = EnergyAlignedClassifier().fit(*long_tail).shifts_
    assert shifts.counts.tolist() == [400, 80, 20]
    assert shifts.clusters.assignment[2] == shifts.clusters.anchor
    assert shifts.values[2] == 0


def test_pipelines_inside_and_outside(long_tail: Problem, balanced: Problem) -> None:
    raw = make_pipeline(StandardScaler(), LogisticRegression())
    inside = EnergyAlignedClassifier(raw)
    outside = make_pipeline(StandardScaler(), EnergyAlignedClassifier(LogisticRegression()))
    assert gain(inside, raw, long_tail, balanced) > 0.1
    assert gain(outside, raw, long_tail, balanced) > 0.1
    assert is_classifier(inside)
    assert inside.fit(*long_tail).n_features_in_ == 4


def test_grid_search_over_the_classifier_and_the_aligner(long_tail: Problem) -> None:
    search = GridSearchCV(
        EnergyAlignedClassifier(LogisticRegression(), aligner=EnergyAligner(), cv=3),
        {"estimator__C": [1e-4, 1.0], "aligner__estimator": ["marginal", "none"]},
        scoring="balanced_accuracy",
        cv=3,
        error_score="raise",
    ).fit(*long_tail)
    assert search.best_params_["aligner__estimator"] == "marginal"
    assert search.best_estimator_.shifts_.estimator == "marginal"
    by_params = {
        (p["estimator__C"], p["aligner__estimator"]): score
        for p, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(set(by_params.values())) > 2  # both parameters reach the models
    assert by_params[1.0, "marginal"] > by_params[1.0, "none"] + 0.1


def test_a_search_inside(long_tail: Problem, balanced: Problem) -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    assert gain(EnergyAlignedClassifier(search, cv=3), search, long_tail, balanced) > 0.1


def test_cross_validation(long_tail: Problem) -> None:
    scores = [
        cross_val_score(m, *long_tail, scoring="balanced_accuracy", cv=StratifiedKFold(4), error_score="raise").mean()
        for m in (EnergyAlignedClassifier(), LogisticRegression())
    ]
    assert scores[0] > scores[1] + 0.1


def test_parameters_go_in_and_out() -> None:
    base, aligner = LogisticRegression(C=2.0), EnergyAligner(tau=0.5)
    model = EnergyAlignedClassifier(base, aligner=aligner, evidence="training", cv=3, n_jobs=2)
    aims = dict.fromkeys(("scoring", "costs", "minimum_recall", "minimum_precision"))
    shallow = {"estimator": base, "aligner": aligner, "evidence": "training", "cv": 3, "n_jobs": 2, **aims}
    assert model.get_params(deep=False) == shallow
    assert model.get_params()["estimator__C"] == 2.0
    assert model.get_params()["aligner__tau"] == 0.5
    model.set_params(estimator__C=5.0, aligner__estimator="prior", cv=4)
    assert (base.C, aligner.estimator, model.cv) == (5.0, "prior", 4)
    with pytest.raises(ValueError, match="Invalid parameter 'folds'"):
        model.set_params(folds=4)


def test_a_clone_is_unfitted_and_shares_nothing(long_tail: Problem) -> None:
    model = EnergyAlignedClassifier(LogisticRegression(C=2.0), aligner=EnergyAligner(tau=0.5)).fit(*long_tail)
    copy = clone(model)
    assert copy.estimator is not model.estimator
    assert (copy.estimator.C, copy.aligner.tau) == (2.0, 0.5)
    with pytest.raises(NotFittedError):
        copy.predict(long_tail[0])


def test_what_the_user_gave_is_not_changed_by_fit(long_tail: Problem) -> None:
    base, aligner = LogisticRegression(), EnergyAligner()
    EnergyAlignedClassifier(base, aligner=aligner).fit(*long_tail)
    assert not hasattr(base, "coef_")
    assert not hasattr(aligner, "classes_")
    assert (aligner.evidence, aligner.classes) == ("training", None)


def test_data_frames_with_names(long_tail: Problem) -> None:
    X, y = long_tail
    frame, labels = pd.DataFrame(X, columns=list("abcd")), pd.Series(NAMES[y])
    model = EnergyAlignedClassifier().fit(frame, labels)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict(frame), EnergyAlignedClassifier().fit(X, NAMES[y]).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[list("dcba")])
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")  # of the fit before


def test_data_frames_with_columns_of_strings(long_tail: Problem) -> None:
    """Only the inner classifier has to understand the input."""
    X, y = long_tail
    frame = pd.DataFrame({"size": X[:, 0], "where": np.where(X[:, 1] > 0, "north", "south")})
    columns = make_column_transformer((OneHotEncoder(), ["where"]), (StandardScaler(), ["size"]))
    model = EnergyAlignedClassifier(make_pipeline(columns, LogisticRegression())).fit(frame, y)
    assert model.shifts_.values[0] < -1
    assert model.predict_proba(frame).shape == (500, 3)


def test_sparse_input(long_tail: Problem) -> None:
    X, y = long_tail
    sparse = np.where(np.abs(X) < 0.5, 0.0, X)
    models = [
        EnergyAlignedClassifier(LogisticRegression(tol=1e-8), aligner=EnergyAligner(estimator="marginal")).fit(data, y)
        for data in (sparse, csr_array(sparse))
    ]
    np.testing.assert_allclose(models[1].shifts_.values, models[0].shifts_.values, atol=1e-4)
    np.testing.assert_array_equal(models[1].predict(csr_array(sparse)), models[0].predict(sparse))


def test_lists_of_texts() -> None:
    """Three topics that share most of their words, one of them rare."""
    rng = np.random.default_rng(0)
    vocabulary = {"sport": ["goal", "team", "match"], "money": ["bank", "stock", "fund"], "space": ["moon", "star"]}
    common = ["the", "of", "day", "year", "new", "people", "time", "first", "last", "home"]

    def texts(topic: str, n: int) -> list[str]:
        words = [*common, *(word for own in vocabulary.values() for word in own), *vocabulary[topic] * 2]
        return [" ".join(rng.choice(words, size=12)) for _ in range(n)]

    def sample(**counts: int) -> tuple[list[str], list[str]]:
        parts = {topic: texts(topic, n) for topic, n in counts.items()}
        return [text for part in parts.values() for text in part], [t for t, p in parts.items() for _ in p]

    raw = make_pipeline(TfidfVectorizer(), LogisticRegression())
    train, test = sample(sport=200, money=60, space=15), sample(sport=150, money=150, space=150)
    assert gain(EnergyAlignedClassifier(raw), raw, train, test) > 0.1


def test_a_precomputed_kernel_is_split_in_rows_and_columns(blobs: Any) -> None:
    (X, y), (other, _) = blobs([60, 20, 10]), blobs([5, 5, 5], seed=1)
    aligner = EnergyAligner(estimator="marginal")
    linear = EnergyAlignedClassifier(SVC(kernel="linear"), aligner=aligner).fit(X, y)
    kernel = EnergyAlignedClassifier(SVC(kernel="precomputed"), aligner=aligner).fit(X @ X.T, y)
    np.testing.assert_allclose(kernel.shifts_.values, linear.shifts_.values, atol=1e-3)
    np.testing.assert_array_equal(kernel.predict(other @ X.T), linear.predict(other))
    cross_val_score(kernel, X @ X.T, y, cv=3, error_score="raise")


def test_another_target_prior_adds_its_logarithm(long_tail: Problem) -> None:
    X, y = long_tail
    prior = np.array([0.2, 0.3, 0.5])
    uniform, other = (
        EnergyAlignedClassifier(aligner=EnergyAligner(estimator="marginal", target_prior=p)).fit(X, y)
        for p in (None, prior)
    )
    np.testing.assert_allclose(other.shifts_.values - uniform.shifts_.values, np.log(3 * prior))
    assert np.mean(other.predict(X) == 2) > np.mean(uniform.predict(X) == 2)


def test_not_fitted(long_tail: Problem) -> None:
    model = EnergyAlignedClassifier()
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError):
            method(long_tail[0])
    assert not hasattr(model, "shifts_")


def test_one_class_is_refused_by_name(long_tail: Problem) -> None:
    X, _ = long_tail
    with pytest.raises(EnergyAlignError, match=r"y must have at least 2 classes, got one class \(cow\)"):
        EnergyAlignedClassifier().fit(X, ["cow"] * len(X))


def test_what_is_no_classifier_is_refused(long_tail: Problem) -> None:
    with pytest.raises(EnergyAlignError, match="LinearRegression is not a classifier"):
        EnergyAlignedClassifier(LinearRegression()).fit(*long_tail)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.linspace(0, 1, 500), "Unknown label type: continuous"),
        (np.arange(1500).reshape(500, 3), "1d array"),
        (
            np.eye(3, dtype=int)[np.arange(500) % 3] + np.eye(3, dtype=int)[np.arange(500) % 5 % 3] > 0,
            r"expects one label per sample, got y with 3 independent labels: give sklearn\.multiclass",
        ),
        (np.eye(2, 3, dtype=int)[np.arange(500) % 2] + [0, 0, 1], "the same y in column 2: leave it out"),
        (np.where(np.arange(500) % 2, np.nan, 1.0), "contains NaN"),
        (np.arange(499) % 2, "inconsistent numbers of samples"),
    ],
    ids=["continuous", "matrix", "multilabel", "always there", "nan", "too short"],
)
def test_bad_labels(y: np.ndarray, message: str, long_tail: Problem) -> None:
    with pytest.raises(ValueError, match=message):
        EnergyAlignedClassifier().fit(long_tail[0], y)


def test_one_hot_labels_just_work(long_tail: Problem) -> None:
    X, y = long_tail
    same = EnergyAlignedClassifier().fit(X, y)
    one_hot = EnergyAlignedClassifier().fit(X, np.eye(int(y.max()) + 1)[y])
    np.testing.assert_array_equal(one_hot.predict(X), same.predict(X))
    names = np.array([f"class {k}" for k in range(int(y.max()) + 1)])
    named = EnergyAlignedClassifier().fit(X, pd.get_dummies(names[y]))
    np.testing.assert_array_equal(named.predict(X), names[same.predict(X)])


def test_counts_by_name(long_tail: Problem) -> None:
    X, y = long_tail
    names = np.array([f"class {k}" for k in range(int(y.max()) + 1)])
    counts = {str(name): 10 * (k + 1) for k, name in enumerate(names)}
    frozen = FrozenEstimator(LogisticRegression().fit(X, names[y]))
    turned = dict(reversed(counts.items()))
    aligned = EnergyAlignedClassifier(frozen).fit(X, names[y], counts=turned)
    assert aligned.shifts_.counts.tolist() == list(counts.values())


def test_a_fitted_classifier_is_fitted_anew_with_a_warning(long_tail: Problem) -> None:
    X, y = long_tail
    fitted = LogisticRegression().fit(X, y)
    before = fitted.coef_.copy()
    with pytest.warns(
        UserWarning, match=r"LogisticRegression is fitted already.*wrap it in sklearn\.frozen\.FrozenEst"
    ):
        EnergyAlignedClassifier(fitted).fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, before)


def test_labels_that_the_frozen_classifier_does_not_know(long_tail: Problem) -> None:
    X, y = long_tail
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(
        EnergyAlignError, match=r"y has labels that no column stands for: class 0.*The columns are \[0, 1"
    ):
        EnergyAlignedClassifier(frozen).fit(X, np.array([f"class {k}" for k in y]))


def test_names_for_a_classifier_that_takes_numbers_only(long_tail: Problem) -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y = long_tail
    with pytest.raises(EnergyAlignError, match=r"XGBClassifier does not accept these labels .*LabelEncoder\(\)"):
        EnergyAlignedClassifier(xgboost.XGBClassifier(n_estimators=2)).fit(X, np.array([f"class {k}" for k in y]))


class TestObjectives:
    @pytest.fixture
    def data(self) -> tuple[Any, Any]:
        X, y = make_classification(
            1500, n_classes=3, n_informative=4, weights=[0.85, 0.1], class_sep=0.7, random_state=0
        )
        return X, np.array(["common", "some", "rare"])[y]

    def test_a_score_is_passed_on_to_the_aligner(self, data: tuple[Any, Any]) -> None:
        model = EnergyAlignedClassifier(scoring="f1_macro").fit(*data)
        assert model.shifts_.scoring == "f1_macro"
        raw, _, chosen = model.shifts_.selection.candidates
        assert chosen.score > raw.score
        assert (
            EnergyAlignedClassifier(aligner=EnergyAligner(scoring="accuracy")).fit(*data).shifts_.scoring == "accuracy"
        )

    def test_a_function_sees_the_labels_of_the_user(self, data: tuple[Any, Any]) -> None:
        def rare_f1(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
            return float(f1_score(y_true == "rare", y_pred == "rare", sample_weight=sample_weight))

        model = EnergyAlignedClassifier(scoring=rare_f1).fit(*data)
        raw, _, chosen = model.shifts_.selection.candidates
        assert chosen.score > raw.score

    def test_a_recall_by_name(self, data: tuple[Any, Any]) -> None:
        X, y = data
        model = EnergyAlignedClassifier(minimum_recall={"rare": 0.7}).fit(X, y)
        assert "of class rare (minimum 0.7)" in model.shifts_.summary()
        assert np.mean(model.predict(X)[y == "rare"] == "rare") > 0.65
