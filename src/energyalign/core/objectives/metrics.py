"""Scores of predicted labels that need only three numbers for each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from energyalign.core.arrays import Floats, Ints


class Objective(Protocol):
    """A score of predicted labels; larger is better."""

    @property
    def name(self) -> str:
        """What users write in ``scoring=``."""

    @property
    def max_trials(self) -> int:
        """How many scores may be computed in a search."""

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:
        """The score of these predictions, each sample with its weight."""


class Tally(NamedTuple):
    """The weight of the samples of each class that are right, that are of it, and that are predicted to be of it."""

    right: Floats
    true: Floats
    predicted: Floats

    @classmethod
    def of(cls, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> Tally:
        right = labels == predicted
        return cls(
            np.bincount(labels[right], weights[right], n_classes),
            np.bincount(labels, weights, n_classes),
            np.bincount(predicted, weights, n_classes),
        )

    @property
    def recalls(self) -> Floats:
        """Of the classes that have samples."""
        return self.right[self.true > 0] / self.true[self.true > 0]

    @property
    def f1(self) -> Floats:
        """Of each class; 0 where it has no samples and no predictions."""
        both = self.true + self.predicted
        return np.divide(2 * self.right, both, out=np.zeros_like(both), where=both > 0)


def _balanced_accuracy(tally: Tally) -> float:
    return float(tally.recalls.mean())


def _accuracy(tally: Tally) -> float:
    return float(tally.right.sum() / tally.true.sum())


def _f1_macro(tally: Tally) -> float:
    return float(tally.f1[tally.true + tally.predicted > 0].mean())


def _f1_weighted(tally: Tally) -> float:
    return float(tally.true @ tally.f1 / tally.true.sum())


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
    """A score that is a function of the tally."""

    name: str
    function: Callable[[Tally], float]
    max_trials: int = 2000

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:
        """Tally the predictions and score them."""
        return self.function(Tally.of(labels, predicted, weights, n_classes))


METRICS: dict[str, Metric] = {
    name: Metric(name, function)
    for name, function in (
        ("balanced_accuracy", _balanced_accuracy),
        ("accuracy", _accuracy),
        ("f1_macro", _f1_macro),
        ("f1_weighted", _f1_weighted),
        ("matthews_corrcoef", _matthews_corrcoef),
        ("geometric_mean", _geometric_mean),
    )
}
