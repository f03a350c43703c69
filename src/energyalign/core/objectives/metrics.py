"""Metrics of predicted labels, computed from three sums per class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import BadValueError


class Objective(Protocol):
    """A score of predicted labels; larger is better."""

    @property
    def name(self) -> str:
        """What users write in ``scoring=``."""

    @property
    def max_trials(self) -> int:
        """Maximum number of scores computed by a class-by-class search; 0 if the largest posterior is optimal."""

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:
        """Return the weighted score of predictions."""

    def expected(self, posteriors: Floats, predicted: Ints, weights: Floats) -> float:
        """Return the expected score if labels are drawn from the posteriors."""


class Tally(NamedTuple):
    """Weights per class: true positives, true samples, predicted samples."""

    right: Floats
    true: Floats
    predicted: Floats

    @classmethod
    def of(cls, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> Tally:
        """Sum the weights per class."""
        right = labels == predicted
        sums = (
            np.bincount(labels[right], weights[right], n_classes),
            np.bincount(labels, weights, n_classes),
            np.bincount(predicted, weights, n_classes),
        )
        return cls(*(np.asarray(values, dtype=np.float64) for values in sums))

    @property
    def recalls(self) -> Floats:
        """Recall of each class that has samples."""
        return self.right[self.true > 0] / self.true[self.true > 0]

    @property
    def f1(self) -> Floats:
        """F1 of each class; 0 if it has no samples and no predictions."""
        both = self.true + self.predicted
        return np.divide(2 * self.right, both, out=np.zeros_like(both), where=both > 0)


def _accuracy(tally: Tally) -> float:
    return float(tally.right.sum() / tally.true.sum())


def _f1(tally: Tally) -> float:
    if len(tally.true) != 2:
        raise BadValueError(f"scoring 'f1' needs two classes, got {len(tally.true)}: use f1_macro or f1_weighted.")
    return float(tally.f1[1])


def _f1_macro(tally: Tally) -> float:
    return float(tally.f1[tally.true + tally.predicted > 0].mean())


def _f1_weighted(tally: Tally) -> float:
    return float(tally.true @ tally.f1 / tally.true.sum())


def _jaccard_macro(tally: Tally) -> float:
    union = tally.true + tally.predicted - tally.right
    return float((tally.right[union > 0] / union[union > 0]).mean())


def _matthews_corrcoef(tally: Tally) -> float:
    total = tally.true.sum()
    covariance = tally.right.sum() * total - tally.true @ tally.predicted
    spread = (total**2 - tally.true @ tally.true) * (total**2 - tally.predicted @ tally.predicted)
    return float(covariance / np.sqrt(spread)) if spread > 0 else 0.0


def _geometric_mean(tally: Tally) -> float:
    recalls = tally.recalls
    return float(np.exp(np.mean(np.log(recalls)))) if np.all(recalls > 0) else 0.0


@dataclass(frozen=True)
class Metric:
    """A score computed from a `Tally`."""

    name: str
    function: Callable[[Tally], float]
    max_trials: int

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:
        """Score predictions."""
        return self.function(Tally.of(labels, predicted, weights, n_classes))

    def expected(self, posteriors: Floats, predicted: Ints, weights: Floats) -> float:
        """Return the score of the expected tally: an approximation if the metric is not linear."""
        own = posteriors[np.arange(len(predicted)), predicted]
        sums = (np.bincount(predicted, values, posteriors.shape[1]) for values in (weights * own, weights))
        right, chosen = (np.asarray(values, dtype=np.float64) for values in sums)
        return self.function(Tally(right, weights @ posteriors, chosen))


class Accuracy(Metric):
    """Accuracy, computed without a `Tally` for speed: `auto` computes it hundreds of times."""

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:  # noqa: ARG002
        """Return the weighted share of correct predictions."""
        return float(weights[labels == predicted].sum() / weights.sum())


METRICS: dict[str, Metric] = {
    name: (Accuracy if function is _accuracy else Metric)(name, function, max_trials)
    for name, function, max_trials in (
        ("balanced_accuracy", _accuracy, 0),  # samples are weighted to be balanced
        ("accuracy", _accuracy, 0),
        ("f1", _f1, 1000),  # of the second of two classes
        ("f1_macro", _f1_macro, 1000),
        ("f1_weighted", _f1_weighted, 1000),
        ("jaccard_macro", _jaccard_macro, 1000),  # mean intersection over union
        ("matthews_corrcoef", _matthews_corrcoef, 1000),
        ("geometric_mean", _geometric_mean, 1000),
    )
}


def show_score(scoring: str, score: float | None) -> str:
    """Format a score: metrics between 0 and 1 in percent, the score of costs as mean cost, others as numbers."""
    if score is None:
        return ""
    return show_error(scoring, 0.0 - score if scoring == "costs" else score)


def show_error(scoring: str, error: float) -> str:
    """Format the standard error of a score, in the unit of `show_score`."""
    return f"{100 * error:.1f} %" if scoring in METRICS and scoring != "matthews_corrcoef" else f"{error:.3f}"


def score_name(scoring: str) -> str:
    """Return the name of a score in text: the score of costs, a negative mean cost, is shown as mean cost."""
    return "mean cost" if scoring == "costs" else scoring
