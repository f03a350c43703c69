"""A classifier and what it is trained on: all samples, or a part of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.core.errors import EnergyAlignError, classes_of, reason_of, some_of
from energyalign.sklearn.scores import class_logits, label_logits


@dataclass(frozen=True, eq=False)
class Training:
    """A classifier that is not fitted, and its training data.

    Attributes
    ----------
    base : classifier
        Every fit is of a copy.
    X : samples, of any kind that `base` takes
    labels : array of shape (n_samples,), or (n_samples, n_labels) of 0 and 1 for independent labels
    weights : array of shape (n_samples,) or None
    groups : array of shape (n_samples,) or None
        Samples that belong together.
    passed : dict
        What `fit` of the classifier gets besides samples and labels.
    """

    base: Any
    X: Any
    labels: npt.NDArray[Any]
    weights: Floats | None = None
    groups: npt.ArrayLike | None = None
    passed: dict[str, Any] = field(default_factory=dict)

    @property
    def is_multilabel(self) -> bool:
        """Whether the labels are independent of each other."""
        return self.labels.ndim == 2

    @property
    def observed(self) -> Bools:
        """Which samples have a weight above 0."""
        return np.ones(len(self.labels), dtype=bool) if self.weights is None else self.weights > 0

    def check(self, *, frozen: bool) -> None:
        """Refuse weights and labels that nothing can be learnt from."""
        if self.weights is not None and np.any(self.weights < 0):
            raise EnergyAlignError("sample_weight must not be negative.")
        seen = self.labels[self.observed]
        if self.is_multilabel:
            alike = np.flatnonzero(seen.min(axis=0, initial=1) == seen.max(axis=0, initial=0)).tolist()
            if alike and not frozen:  # a classifier that is fitted knows the label, and the aligner says what it lacks
                raise EnergyAlignError(f"every sample has the same y in column {some_of(alike)}: leave it out.")
            return
        classes, present = np.unique(self.labels), np.unique(seen)
        if len(present) < 2:
            raise EnergyAlignError(
                f"y has one class only ({some_of(present.tolist())}); at least 2 classes are needed."
            )
        if len(present) < len(classes):
            absent = np.setdiff1d(classes, present).tolist()
            raise EnergyAlignError(f"all samples of {classes_of(absent)} have weight 0: leave them out.")

    def count(self, classes: npt.NDArray[Any]) -> Floats:
        """Samples of each class; without and with each of independent labels."""
        if self.is_multilabel:
            each = np.ones(len(self.labels)) if self.weights is None else self.weights
            return np.column_stack([each @ (1 - self.labels), each @ self.labels])
        places = np.searchsorted(classes, self.labels)
        return np.bincount(places, weights=self.weights, minlength=len(classes)).astype(np.float64)

    def fit(self, rows: Ints | None = None) -> Any:
        """Fit a copy of the classifier on these rows, or on all."""
        X, labels, passed = self.X, self.labels, self.passed
        if rows is not None:
            X, labels = _safe_split(self.base, X, None, rows)[0], labels[rows]
            passed = _check_method_params(self.X, passed, indices=rows)
        try:
            fitted = clone(self.base).fit(X, labels, **passed)
        except ValueError as error:
            if remedy := self._find_remedy(error):
                raise EnergyAlignError(f"{type(self.base).__name__} {remedy}") from error
            raise
        if not hasattr(fitted, "classes_"):
            raise EnergyAlignError(f"{type(self.base).__name__} is no classifier: it has no classes_ after fit.")
        return fitted

    def fit_and_score(self, seen: Ints, scored: Ints) -> Floats:
        """Logits of the rows `scored` by a classifier that was fitted on the rows `seen`."""
        fitted = self.fit(seen)
        rows, _ = _safe_split(self.base, self.X, None, scored, seen)
        if self.is_multilabel:
            return label_logits(fitted, rows, self.labels.shape[1])
        return class_logits(fitted, rows, np.unique(self.labels))

    def _find_remedy(self, error: ValueError) -> str:
        """What is wrong and what to do about it, for errors that many meet."""
        if self.is_multilabel and "1d array" in str(error):
            return (
                f"takes one label per sample, and y has {self.labels.shape[1]} independent labels: give "
                f"sklearn.multiclass.OneVsRestClassifier({type(self.base).__name__}(...)), or y as class numbers."
            )
        if "Invalid classes inferred" in str(error):  # XGBoost takes the numbers 0, 1, 2, ... alone
            return (
                f"does not take these labels ({reason_of(error)}): encode them first, "
                "y = sklearn.preprocessing.LabelEncoder().fit_transform(y)."
            )
        return ""
