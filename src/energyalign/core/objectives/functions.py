"""Objectives by name, by scikit-learn's scorers, and by functions of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import BadValueError
from energyalign.core.objectives.metrics import METRICS, Objective


class Aims(TypedDict, total=False):
    """The options of `energyalign.fit_shifts` that say what decisions should be best at."""

    scoring: str | Callable[..., float]
    costs: npt.ArrayLike | None
    minimum_recall: Mapping[Any, float] | None
    minimum_precision: Mapping[Any, float] | None


@dataclass(frozen=True)
class Function:
    """``function(y_true, y_pred[, sample_weight])`` of class numbers or, with `classes`, of names; more is better."""

    name: str
    function: Callable[..., float]
    classes: Any = None
    max_trials: int = 100

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:  # noqa: ARG002
        """Call the function; one that takes no weights sees a sample ten times as often as its relative weight says."""
        if "sample_weight" not in inspect.signature(self.function).parameters:
            repeats = np.rint(10 * weights / weights.mean()).astype(np.int64)
            labels, predicted = np.repeat(labels, repeats), np.repeat(predicted, repeats)
            return float(self.function(self._named(labels), self._named(predicted)))
        return float(self.function(self._named(labels), self._named(predicted), sample_weight=weights))

    def expected(self, posteriors: Floats, predicted: Ints, weights: Floats) -> float:
        """Score every sample with each label, weighted by its posterior."""
        n_samples, n_classes = posteriors.shape
        labels, shares = np.tile(np.arange(n_classes), n_samples), (weights[:, None] * posteriors).ravel()
        kept = shares > 1e-3 * weights.mean()
        return self.score(labels[kept], np.repeat(predicted, n_classes)[kept], shares[kept], n_classes)

    def _named(self, numbers: Ints) -> Any:
        return numbers if self.classes is None else np.asarray(self.classes)[numbers]


def make_objective(scoring: str | Callable[..., float] | Objective, classes: Any = None) -> Objective:
    """The objective of this name, of a scikit-learn scorer of labels, or of a function."""
    if not isinstance(scoring, str):
        if isinstance(scoring, Function):
            return scoring  # made of the same already
        if hasattr(scoring, "_score_func"):
            return _from_scorer(scoring, str(scoring), classes)
        if callable(scoring):
            return Function(getattr(scoring, "__name__", type(scoring).__name__), scoring, classes)
        raise BadValueError(f"scoring must be a name or a function (y_true, y_pred) -> number, got {scoring!r}.")
    if scoring in METRICS:
        return METRICS[scoring]
    try:
        from sklearn.metrics import get_scorer
    except ImportError as error:
        raise BadValueError(f"unknown scoring {scoring!r}: expected one of {', '.join(METRICS)}.") from error
    try:
        scorer = get_scorer(scoring)
    except ValueError as error:
        raise BadValueError(
            f"unknown scoring {scoring!r}: expected one of {', '.join(METRICS)}, or a name of "
            "sklearn.metrics.get_scorer_names()."
        ) from error
    return _from_scorer(scorer, scoring, classes)


def _from_scorer(scorer: Any, name: str, classes: Any) -> Function:
    """A scorer of scikit-learn as a function of labels."""
    if getattr(scorer, "_response_method", "predict") != "predict":
        raise BadValueError(
            f"scoring {name!r} scores probabilities, which shifts do not choose by: give a scorer of labels, such as "
            f"{', '.join(METRICS)}."
        )
    function, sign, options = scorer._score_func, scorer._sign, scorer._kwargs

    def score(y_true: Any, y_pred: Any, sample_weight: Any) -> float:
        return float(sign * function(y_true, y_pred, sample_weight=sample_weight, **options))

    return Function(name, score, classes)
