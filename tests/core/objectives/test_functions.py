"""Scorers of scikit-learn and functions of the user's as objectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score, fbeta_score, jaccard_score, make_scorer, mean_absolute_error

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
    assert score(make_objective("jaccard_macro")) == jaccard_score(LABELS, PREDICTED, average="macro")


def test_scorers_of_scikit_learn_with_their_options_and_sign() -> None:
    scorer = make_scorer(fbeta_score, beta=2.0, average="macro")
    assert score(make_objective(scorer)) == fbeta_score(LABELS, PREDICTED, beta=2.0, average="macro")
    loss = make_scorer(mean_absolute_error, greater_is_better=False)
    assert score(make_objective(loss)) == -mean_absolute_error(LABELS, PREDICTED)


def test_a_function_sees_names_if_there_are_any() -> None:
    names = np.array(["ant", "bee", "cat"])

    def bees(y_true: Any, y_pred: Any) -> float:
        return float(np.mean(y_pred[y_true == "bee"] == "bee"))

    objective = make_objective(bees, names)
    assert objective.name == "bees"
    assert score(objective) == np.mean(PREDICTED[LABELS == 1] == 1)


def test_a_function_without_weights_sees_samples_repeated() -> None:
    weights = RNG.integers(1, 4, 60).astype(float)
    weights *= 60 / weights.sum() * 2  # so that ten times the relative weight is a whole number only roughly
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
     ("neg_log_loss", "scores probabilities"), ("roc_auc", "scores probabilities")],
)  # fmt: skip
def test_what_is_no_score_of_labels_is_refused(scoring: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        make_objective(scoring)
