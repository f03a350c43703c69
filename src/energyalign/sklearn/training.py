"""A classifier and its training data, to fit on all samples or a part of them."""

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
    """An unfitted classifier, which is cloned for every fit, and its training data.

    `labels` is of shape (n_samples,), or (n_samples, n_labels) of 0 and 1 for independent labels. Samples of one of the
    `groups` stay together. `fit_params` are further arguments of `fit`.
    """

    base: Any
    X: Any
    labels: npt.NDArray[Any]
    weights: Floats | None = None
    groups: npt.ArrayLike | None = None
    fit_params: dict[str, Any] = field(default_factory=dict)

    @property
    def is_multilabel(self) -> bool:
        """Whether the labels are independent."""
        return self.labels.ndim == 2

    @property
    def observed(self) -> Bools:
        """Mask of the samples with a weight above 0."""
        return np.ones(len(self.labels), dtype=bool) if self.weights is None else self.weights > 0

    def check(self, *, frozen: bool) -> None:
        """Raise if nothing can be learnt from the weights and labels."""
        if self.weights is not None and np.any(self.weights < 0):
            raise EnergyAlignError(f"sample_weight must be >= 0, got {self.weights.min():g}.")
        seen = self.labels[self.observed]
        if self.is_multilabel:
            alike = np.flatnonzero(seen.min(axis=0, initial=1) == seen.max(axis=0, initial=0)).tolist()
            if alike and not frozen:  # a frozen classifier knows the label, and the aligner warns
                raise EnergyAlignError(f"every sample has the same y in column {some_of(alike)}: leave it out.")
            return
        classes, present = np.unique(self.labels), np.unique(seen)
        if len(present) < 2:
            raise EnergyAlignError(f"y must have at least 2 classes, got one class ({some_of(present.tolist())}).")
        if len(present) < len(classes):
            absent = np.setdiff1d(classes, present).tolist()
            raise EnergyAlignError(f"all samples of {classes_of(absent)} have weight 0: leave them out.")

    def count(self, classes: npt.NDArray[Any]) -> Floats:
        """Count the samples of each class, or without and with each independent label."""
        if self.is_multilabel:
            weights = np.ones(len(self.labels)) if self.weights is None else self.weights
            return np.column_stack([weights @ (1 - self.labels), weights @ self.labels])
        places = np.searchsorted(classes, self.labels)
        return np.bincount(places, weights=self.weights, minlength=len(classes)).astype(np.float64)

    def fit(self, rows: Ints | None = None) -> Any:
        """Fit a clone of the classifier on these rows, or on all."""
        X, labels, fit_params = self.X, self.labels, self.fit_params
        if rows is not None:
            X, labels = _safe_split(self.base, X, None, rows)[0], labels[rows]
            fit_params = _check_method_params(self.X, fit_params, indices=rows)
        try:
            fitted = clone(self.base).fit(X, labels, **fit_params)
        except ValueError as error:
            if remedy := self._find_remedy(error):
                raise EnergyAlignError(f"{type(self.base).__name__} {remedy}") from error
            raise
        if not hasattr(fitted, "classes_"):
            raise EnergyAlignError(f"{type(self.base).__name__} is not a classifier: it has no classes_ after fit.")
        return fitted

    def fit_and_score(self, seen: Ints, scored: Ints) -> Floats:
        """Fit on the rows `seen` and return logits of the rows `scored`."""
        fitted = self.fit(seen)
        rows, _ = _safe_split(self.base, self.X, None, scored, seen)
        if self.is_multilabel:
            return label_logits(fitted, rows, self.labels.shape[1])
        return class_logits(fitted, rows, np.unique(self.labels))

    def _find_remedy(self, error: ValueError) -> str:
        """Return a remedy for common errors of classifiers, or an empty string."""
        if self.is_multilabel and "1d array" in str(error):
            return (
                f"expects one label per sample, got y with {self.labels.shape[1]} independent labels: give "
                f"sklearn.multiclass.OneVsRestClassifier({type(self.base).__name__}(...)), or y as class numbers."
            )
        if "Invalid classes inferred" in str(error):  # XGBoost accepts only the numbers 0, 1, 2, ...
            return (
                f"does not accept these labels ({reason_of(error)}): encode them first, "
                "y = sklearn.preprocessing.LabelEncoder().fit_transform(y)."
            )
        return ""
