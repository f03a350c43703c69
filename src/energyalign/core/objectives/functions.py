"""Make objectives from names, scikit-learn scorers and user functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import BadValueError, reason_of
from energyalign.core.objectives.metrics import METRICS, Metric, Objective


class Aims(TypedDict, total=False):
    """Options of `energyalign.fit_shifts` that set the objective."""

    scoring: str | Callable[..., float]
    costs: npt.ArrayLike | None
    minimum_recall: Mapping[Any, float] | None
    minimum_precision: Mapping[Any, float] | None


@dataclass(frozen=True)
class Function:
    """A user function ``(y_true, y_pred[, sample_weight])`` of class numbers or, with `classes`, labels."""

    name: str
    function: Callable[..., float]
    classes: Any = None
    sign: int = 1
    max_trials: int = 100

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:  # noqa: ARG002
        """Call the function; if it takes no weights, repeat each sample 10 times its relative weight."""
        options = {"sample_weight": weights} if self._takes_weights else {}
        if not self._takes_weights and np.any(weights != weights[:1]):
            repeats = np.rint(10 * weights / weights.mean()).astype(np.int64)
            labels, predicted = np.repeat(labels, repeats), np.repeat(predicted, repeats)
        try:
            value = self.sign * float(self.function(self._named(labels), self._named(predicted), **options))
        except (TypeError, ValueError) as error:
            raise BadValueError(f"scoring {self.name!r} cannot score these labels: {reason_of(error)}") from error
        if not np.isfinite(value):
            raise BadValueError(
                f"scoring {self.name!r} gave {value}: it must give a finite number for any labels and predictions, "
                "also if a class is never predicted."
            )
        return value

    @cached_property
    def _takes_weights(self) -> bool:
        return "sample_weight" in inspect.signature(self.function).parameters

    def expected(self, posteriors: Floats, predicted: Ints, weights: Floats) -> float:
        """Score every sample with each label, weighted by its posterior."""
        n_samples, n_classes = posteriors.shape
        labels, shares = np.tile(np.arange(n_classes), n_samples), (weights[:, None] * posteriors).ravel()
        kept = shares > 1e-3 * weights.mean()
        return self.score(labels[kept], np.repeat(predicted, n_classes)[kept], shares[kept], n_classes)

    def _named(self, numbers: Ints) -> Any:
        return numbers if self.classes is None else np.asarray(self.classes)[numbers]


def make_objective(scoring: str | Callable[..., float] | Objective, classes: Any = None) -> Objective:
    """Return the objective for a name, a scikit-learn scorer of labels, or a function."""
    if not isinstance(scoring, str):
        if isinstance(scoring, (Function, Metric)):
            return scoring
        if hasattr(scoring, "_score_func"):
            return _from_scorer(scoring, str(scoring), classes)
        if callable(scoring):
            name = getattr(scoring, "__name__", type(scoring).__name__)
            return Function(f"{name}()" if name in METRICS else name, scoring, classes)  # not ours
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
    """Convert a scikit-learn scorer to a function of labels."""
    known = ", ".join(METRICS)
    if getattr(scorer, "_response_method", "predict") != "predict":
        raise BadValueError(
            f"scoring {name!r} scores probabilities, not predicted labels: give a scorer of labels, such as {known}."
        )
    if getattr(scorer._score_func, "__module__", "").endswith("metrics._regression"):
        raise BadValueError(f"scoring {name!r} scores numbers, not classes: give a scorer of labels, such as {known}.")
    return Function(name, partial(scorer._score_func, **scorer._kwargs), classes, scorer._sign)
