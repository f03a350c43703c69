"""Turn the scores of a fitted classifier into logits, one column per class or independent label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.core.probabilities import log_probabilities


def class_logits(classifier: Any, X: Any, classes: npt.NDArray[Any]) -> Floats:
    """Return one column of logits for each of `classes`; -inf for a class that the classifier does not know.

    The decision function is preferred, because it is not normalised. Without one, or if its scores are of pairs of
    classes (one-versus-one), log-probabilities are used.
    """
    own = np.asarray(classifier.classes_)
    scores = _scores(classifier, X, len(own))
    if len(own) == len(classes):
        return scores
    logits = np.full((len(scores), len(classes)), -np.inf)
    logits[:, np.searchsorted(classes, own)] = scores
    return logits


def _scores(classifier: Any, X: Any, n_classes: int) -> Floats:
    if prefers_decision(classifier, n_classes):
        decision = np.asarray(classifier.decision_function(X), dtype=np.float64)
        if decision.ndim == 1:  # the difference of two logits
            return np.column_stack([-decision / 2, decision / 2])
        if decision.shape[1] == n_classes:
            return decision
    _require_probabilities(classifier)
    return np.asarray(log_probabilities(np.asarray(classifier.predict_proba(X), dtype=np.float64)))


def label_logits(classifier: Any, X: Any, n_labels: int) -> Floats:
    """Return one column of logits for each independent label: the decision function, or else log-odds."""
    if hasattr(classifier, "decision_function"):
        logits = np.asarray(classifier.decision_function(X), dtype=np.float64)
    else:
        _require_probabilities(classifier)
        probabilities = classifier.predict_proba(X)
        if isinstance(probabilities, list):  # for each label, a column for 0 and 1, if it was seen in training
            pairs = zip(probabilities, classifier.classes_, strict=True)
            probabilities = np.column_stack([np.asarray(own)[:, classes == 1].sum(axis=1) for own, classes in pairs])
        present = np.asarray(probabilities, dtype=np.float64)
        without, with_it = np.moveaxis(log_probabilities(np.stack([1 - present, present], axis=-1)), -1, 0)
        logits = with_it - without
    if logits.ndim != 2 or logits.shape[1] != n_labels:
        raise EnergyAlignError(
            f"{type(classifier).__name__} gives scores of shape {logits.shape} for {n_labels} independent labels: "
            "use a classifier with one per sample and label."
        )
    return logits


def _require_probabilities(classifier: Any) -> None:
    if not hasattr(classifier, "predict_proba"):
        raise EnergyAlignError(
            f"{type(classifier).__name__} gives neither one score per class nor probabilities: it needs a "
            "decision_function (of one-versus-rest shape, for SVC decision_function_shape='ovr') or predict_proba."
        )


def prefers_decision(classifier: Any, n_classes: int) -> bool:
    """Return whether the logits come from the decision function, not from probabilities."""
    return hasattr(classifier, "decision_function") and (n_classes == 2 or not _is_one_versus_one(classifier))


def _is_one_versus_one(classifier: Any) -> bool:
    """Return whether scores are of pairs of classes. The shape does not show this: three classes have three pairs."""
    for inside in ("best_estimator_", "estimator_"):
        if hasattr(classifier, inside):
            return _is_one_versus_one(getattr(classifier, inside))
    if hasattr(classifier, "steps"):
        return _is_one_versus_one(classifier.steps[-1][1])
    return getattr(classifier, "decision_function_shape", None) == "ovo"
