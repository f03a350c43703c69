"""scikit-learn scorers and user functions as objectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    cohen_kappa_score,
    f1_score,
    fbeta_score,
    get_scorer,
    hamming_loss,
    jaccard_score,
    make_scorer,
    recall_score,
)

from energyalign.core.errors import BadValueError
from energyalign.core.objectives import METRICS, make_objective

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 60)
PREDICTED = np.where(RNG.random(60) < 0.6, LABELS, RNG.integers(0, 3, 60))
ONES = np.ones(60)


def score(objective: Any, weights: Any = ONES) -> float:
    return objective.score(LABELS, PREDICTED, weights, 3)


def test_names_of_our_own() -> None:
    assert make_objective("f1_macro") is METRICS["f1_macro"]


def test_names_of_scikit_learn() -> None:
    assert score(make_objective("jaccard_weighted")) == jaccard_score(LABELS, PREDICTED, average="weighted")


def test_scorers_of_scikit_learn_with_their_options_and_sign() -> None:
    scorer = make_scorer(fbeta_score, beta=2.0, average="macro")
    assert score(make_objective(scorer)) == fbeta_score(LABELS, PREDICTED, beta=2.0, average="macro")
    loss = make_scorer(hamming_loss, greater_is_better=False)
    assert score(make_objective(loss)) == -hamming_loss(LABELS, PREDICTED)


def test_scorers_of_functions_that_take_no_weights() -> None:
    def share(y_true: Any, y_pred: Any, *, of: int) -> float:
        return float(np.mean(y_pred[y_true == of] == of))

    objective = make_objective(make_scorer(share, of=2))
    assert score(objective) == np.mean(PREDICTED[LABELS == 2] == 2)
    assert score(objective, np.where(LABELS == 1, 2.0, 1.0)) == pytest.approx(score(objective))


def test_equal_weights_repeat_nothing() -> None:
    sizes = []

    def count(y_true: Any, y_pred: Any) -> float:
        sizes.append((len(y_true), len(y_pred)))
        return 0.0

    for weights in (ONES, 0.3 * ONES):
        score(make_objective(count), weights)
    assert sizes == [(60, 60)] * 2


def test_a_function_of_the_name_of_a_metric_is_another_score() -> None:
    def balanced_accuracy(y_true: Any, y_pred: Any) -> float:
        return float(np.mean(y_pred == y_true))

    objective = make_objective(balanced_accuracy)
    assert objective.name == "balanced_accuracy()"
    assert make_objective(objective) is objective
    assert make_objective(METRICS["f1_macro"]) is METRICS["f1_macro"]


def test_labels_are_those_of_the_user_by_name_and_by_object() -> None:
    two, classes = (LABELS > 0).astype(int), np.array([1, 2])
    predicted = (PREDICTED > 0).astype(int)
    wanted = recall_score(classes[two], classes[predicted])  # of label 1
    for scoring in ("recall", get_scorer("recall")):
        assert make_objective(scoring, classes).score(two, predicted, ONES, 2) == wanted


def test_a_function_sees_names_if_there_are_any() -> None:
    names = np.array(["ant", "bee", "cat"])

    def bees(y_true: Any, y_pred: Any) -> float:
        return float(np.mean(y_pred[y_true == "bee"] == "bee"))

    objective = make_objective(bees, names)
    assert objective.name == "bees"
    assert score(objective) == np.mean(PREDICTED[LABELS == 1] == 1)


def test_a_function_without_weights_sees_samples_repeated() -> None:
    weights = RNG.integers(1, 4, 60).astype(float)
    weights *= 60 / weights.sum() * 2  # so that ten times the relative weight is not a whole number
    plain = make_objective(lambda y, p: f1_score(y, p, average="macro"))
    assert score(plain, weights) == pytest.approx(
        f1_score(LABELS, PREDICTED, average="macro", sample_weight=weights), abs=0.01
    )


def test_expected_scores_of_a_function() -> None:
    posteriors = RNG.dirichlet(np.ones(3), size=60)
    objective = make_objective(cohen_kappa_score)
    labels, predicted = np.tile(np.arange(3), 60), np.repeat(PREDICTED, 3)
    assert objective.expected(posteriors, PREDICTED, ONES) == pytest.approx(
        cohen_kappa_score(labels, predicted, sample_weight=posteriors.ravel()), abs=2e-3
    )


@pytest.mark.parametrize(
    ("scoring", "message"),
    [("f1_marco", "unknown scoring 'f1_marco': expected one of balanced_accuracy, "), (3, "a name or a function"),
     ("neg_log_loss", "scores probabilities"), ("roc_auc", "scores probabilities"),
     ("r2", "scoring 'r2' scores numbers, not classes: give a scorer of labels, such as balanced_accuracy"),
     ("neg_mean_absolute_error", "scores numbers")],
)  # fmt: skip
def test_what_is_no_score_of_labels_is_refused(scoring: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        make_objective(scoring)


@pytest.mark.parametrize(
    ("scoring", "message"),
    [("recall", "scoring 'recall' cannot score these labels: Target is multiclass but average='binary'"),
     (lambda *_: float("nan"), "scoring '<lambda>' gave nan: it must give a finite number"),
     (lambda *_: None, "scoring '<lambda>' cannot score these labels")],
)  # fmt: skip
def test_scores_that_fail_on_these_labels(scoring: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        score(make_objective(scoring))
