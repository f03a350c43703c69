"""From the scores of a classifier to one logit per class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from energyalign import EnergyAlignedClassifier, EnergyAlignError
from energyalign.core.probabilities import MIN_PROBABILITY
from energyalign.sklearn.scores import class_logits

CLASSES = np.arange(3)


def classifier(*, classes: Any = CLASSES, **answers: Any) -> Any:
    """Make a stand-in for a fitted classifier: methods with fixed results, and attributes."""
    methods = {"decision_function", "predict_proba"}
    members = {name: (lambda _, a=answer: a) if name in methods else answer for name, answer in answers.items()}
    return SimpleNamespace(classes_=np.asarray(classes), **members)


def test_the_decision_function_is_preferred_to_probabilities() -> None:
    decision = np.array([[1.0, 2.0, 3.0]])
    both = classifier(decision_function=decision, predict_proba=np.array([[0.2, 0.3, 0.5]]))
    np.testing.assert_array_equal(class_logits(both, None, CLASSES), decision)


def test_one_score_for_two_classes_is_split_in_equal_halves() -> None:
    binary = classifier(classes=[0, 1], decision_function=np.array([3.0, -1.0, 0.0]))
    logits = class_logits(binary, None, np.arange(2))
    np.testing.assert_array_equal(logits, [[-1.5, 1.5], [0.5, -0.5], [0.0, 0.0]])


def test_without_a_decision_function_log_probabilities_serve() -> None:
    only = classifier(predict_proba=np.array([[0.2, 0.3, 0.5]]))
    np.testing.assert_allclose(class_logits(only, None, CLASSES), np.log([[0.2, 0.3, 0.5]]))


def test_a_probability_of_zero_is_taken_to_be_small() -> None:
    sure = classifier(predict_proba=np.array([[1.0, 0.0, 0.0]]))
    clipped = np.array([1.0, MIN_PROBABILITY, MIN_PROBABILITY])
    np.testing.assert_allclose(class_logits(sure, None, CLASSES), [np.log(clipped / clipped.sum())])


@pytest.mark.parametrize("known", [[0, 2], ["a", "c"]])
def test_a_class_that_the_classifier_does_not_know_is_masked(known: list[Any]) -> None:
    classes = np.array(["a", "b", "c"] if isinstance(known[0], str) else [0, 1, 2])
    logits = class_logits(classifier(classes=known, decision_function=np.array([4.0])), None, classes)
    assert logits.tolist() == [[-2.0, -np.inf, 2.0]]


def test_scores_of_pairs_are_not_scores_of_classes() -> None:
    """Three classes have three pairs: the shape alone does not distinguish them."""
    pairs = classifier(
        decision_function_shape="ovo",
        decision_function=np.array([[1.0, -1.0, 1.0]]),
        predict_proba=np.array([[0.2, 0.3, 0.5]]),
    )
    np.testing.assert_allclose(class_logits(pairs, None, CLASSES), np.log([[0.2, 0.3, 0.5]]))


def test_scores_of_one_pair_are_those_of_two_classes() -> None:
    pair = classifier(classes=[0, 1], decision_function_shape="ovo", decision_function=np.array([2.0]))
    assert class_logits(pair, None, np.arange(2)).tolist() == [[-1.0, 1.0]]


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("wrap", ["bare", "pipeline", "search", "frozen", "frozen pipeline"])
def test_a_one_versus_one_svc_is_recognised_wherever_it_is(n_classes: int, wrap: str, blobs: Any) -> None:
    X, y = blobs([20] * n_classes)
    svc: Any = SVC(decision_function_shape="ovo")
    if "pipeline" in wrap:
        svc = make_pipeline(StandardScaler(), svc)
    elif wrap == "search":
        svc = GridSearchCV(svc, {"C": [1.0]}, cv=2)
    fitted = svc.fit(X, y)
    with pytest.raises(EnergyAlignError, match="decision_function_shape='ovr'"):
        class_logits(FrozenEstimator(fitted) if "frozen" in wrap else fitted, X, np.arange(n_classes))


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_a_one_versus_one_svc_of_two_classes_needs_no_remedy(blobs: Any) -> None:
    X, y = blobs([30, 10])
    one, rest = (
        EnergyAlignedClassifier(SVC(decision_function_shape=shape)).fit(X, y).decision_function(X)
        for shape in ("ovo", "ovr")
    )
    np.testing.assert_array_equal(one, rest)


def test_a_classifier_with_labels_only_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="SimpleNamespace gives neither one score per class nor probabilities"):
        class_logits(classifier(), None, CLASSES)


def test_what_real_classifiers_say(blobs: Any) -> None:
    X, y = blobs([30, 20, 10])
    regression = LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(class_logits(regression, X, CLASSES), regression.decision_function(X))
    bayes = GaussianNB().fit(X, y)
    clipped = bayes.predict_proba(X).clip(1e-6)
    np.testing.assert_allclose(class_logits(bayes, X, CLASSES), np.log(clipped / clipped.sum(axis=1, keepdims=True)))
