"""Metrics agree with scikit-learn's, also for expectations over posteriors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyalign.core.errors import BadValueError
from energyalign.core.objectives import METRICS, show_error, show_score
from sklearn import metrics as sk

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 200)
PREDICTED = np.where(RNG.random(200) < 0.6, LABELS, RNG.integers(0, 5, 200))  # class 4 has no samples
WEIGHTS = RNG.integers(1, 4, 200).astype(float)


def geometric_mean(y: Any, p: Any, sample_weight: Any) -> float:
    recalls = sk.recall_score(y, p, labels=np.unique(y), average=None, sample_weight=sample_weight)
    return float(np.prod(recalls) ** (1 / len(recalls)))


REFERENCES: dict[str, Callable[..., float]] = {
    "accuracy": sk.accuracy_score,
    "f1_macro": lambda *a, **k: sk.f1_score(*a, average="macro", **k),
    "f1_weighted": lambda *a, **k: sk.f1_score(*a, average="weighted", **k),
    "jaccard_macro": lambda *a, **k: sk.jaccard_score(*a, average="macro", **k),
    "matthews_corrcoef": sk.matthews_corrcoef,
    "geometric_mean": geometric_mean,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_metric_is_that_of_scikit_learn(name: str) -> None:
    own = METRICS[name].score(LABELS, PREDICTED, WEIGHTS, 5)
    assert own == pytest.approx(REFERENCES[name](LABELS, PREDICTED, sample_weight=WEIGHTS), abs=1e-12)


def test_balanced_accuracy_is_the_accuracy_of_balanced_samples() -> None:
    weights = 1 / np.bincount(LABELS, minlength=5)[LABELS]
    own = METRICS["balanced_accuracy"].score(LABELS, PREDICTED, weights, 5)
    assert own == pytest.approx(np.mean([np.mean(PREDICTED[k == LABELS] == k) for k in range(4)]), abs=1e-12)


def test_f1_of_two_classes() -> None:
    labels, predicted = LABELS % 2, PREDICTED % 2
    own = METRICS["f1"].score(labels, predicted, WEIGHTS, 2)
    assert own == pytest.approx(sk.f1_score(labels, predicted, sample_weight=WEIGHTS), abs=1e-12)
    with pytest.raises(BadValueError, match="scoring 'f1' needs two classes, got 5"):
        METRICS["f1"].score(LABELS, PREDICTED, WEIGHTS, 5)


@pytest.mark.parametrize("name", [name for name in METRICS if name != "f1"])
def test_the_expected_score_is_that_of_every_label_with_its_posterior(name: str) -> None:
    posteriors = RNG.dirichlet(np.ones(5), size=200)
    expected = METRICS[name].expected(posteriors, PREDICTED, WEIGHTS)
    labels, predicted = np.tile(np.arange(5), 200), np.repeat(PREDICTED, 5)
    assert expected == pytest.approx(
        METRICS[name].score(labels, predicted, (WEIGHTS[:, None] * posteriors).ravel(), 5), abs=1e-12
    )


def test_predictions_of_one_class_have_no_correlation() -> None:
    assert METRICS["matthews_corrcoef"].score(LABELS, np.zeros(200, dtype=int), WEIGHTS, 5) == 0
    assert METRICS["geometric_mean"].score(LABELS, np.zeros(200, dtype=int), WEIGHTS, 5) == 0


@pytest.mark.parametrize(
    ("scoring", "score", "text"),
    [("f1_macro", 0.6666, "66.7 %"), ("balanced_accuracy", None, ""), ("matthews_corrcoef", -0.25, "-0.250"),
     ("costs", -1.52, "1.520"), ("costs", 0.0, "0.000"), ("my_gain", 31.5, "31.500")],
)  # fmt: skip
def test_shares_are_shown_in_per_cent_and_the_score_of_costs_as_a_cost(
    scoring: str, score: float | None, text: str
) -> None:
    assert show_score(scoring, score) == text


@pytest.mark.parametrize(
    ("scoring", "error", "text"), [("f1_macro", 0.02, "2.0 %"), ("costs", 0.02, "0.020"), ("my_gain", 0.5, "0.500")]
)
def test_errors_have_no_sign(scoring: str, error: float, text: str) -> None:
    assert show_error(scoring, error) == text
