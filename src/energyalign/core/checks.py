"""Validation of per-class and per-sample inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Array, Floats, Ints, to_numpy
from energyalign.core.errors import EnergyAlignError, classes_of, some_of
from energyalign.core.names import Counts, counts_by_class, names_of


def flat_labels(labels: Array) -> npt.NDArray[Any]:
    """Return labels as a NumPy array; decode one-hot rows."""
    values = to_numpy(labels)
    if values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "biuf":
        ones = values == 1
        if np.all(ones | (values == 0)) and np.all(ones.sum(axis=1) == 1):
            return np.asarray(ones.argmax(axis=1))
    return values


def check_labels(labels: Array, n_samples: int, n_classes: int, class_names: Sequence[str] | None = None) -> Ints:
    """Return labels as class numbers; look up names in `class_names`."""
    values = flat_labels(labels)
    if values.shape != (n_samples,):
        remedy = " For independent labels, pass multilabel=True." if values.shape == (n_samples, n_classes) else ""
        raise EnergyAlignError(
            f"labels must have shape ({n_samples},), one per row of logits, got {values.shape}.{remedy}"
        )
    if class_names is not None and values.dtype.kind in "OU":
        distinct, place = np.unique(names_of(values), return_inverse=True)
        unknown = np.setdiff1d(distinct, class_names).tolist()
        if unknown:
            raise EnergyAlignError(
                f"labels must be among the columns of the logits [{some_of(class_names)}], got [{some_of(unknown)}]."
            )
        columns = {name: column for column, name in enumerate(class_names)}
        values = np.array([columns[name] for name in distinct.tolist()])[place]
    if n_classes == 2 and values.dtype.kind in "bf" and np.isin(values, (0, 1)).all():
        values = values.astype(np.int64)  # binary losses take such labels
    if not np.issubdtype(values.dtype, np.integer):
        raise EnergyAlignError(
            f"labels must be class numbers (integers), or names with class_names=[...], got {values.dtype}."
        )
    wrong = np.flatnonzero((values < 0) | (values >= n_classes))
    if len(wrong):
        raise EnergyAlignError(
            f"label {values[wrong[0]]} of sample {wrong[0]} is out of range: expected 0..{n_classes - 1}, a column of "
            "the logits. If it marks samples to leave out, give it as the ignore index."
        )
    return values.astype(np.int64)


def check_counts(counts: npt.ArrayLike, n_classes: int) -> Floats:
    """Return training counts as an array of positive numbers."""
    remedy = "A class without training samples has no prior to correct: leave it out of the logits."
    return _positive("training counts", counts, n_classes, remedy)


def check_target_prior(prior: Counts | None, n_classes: int, class_names: Sequence[str] | None = None) -> Floats:
    """Return the target prior, normalised to sum to one; uniform for None."""
    if prior is None:
        return np.full(n_classes, 1.0 / n_classes)
    remedy = "For a class that never occurs, give a small probability or set its logits to -inf."
    ordered, _ = counts_by_class(prior, class_names, n_classes, source="target prior")
    values = _positive("target prior", ordered, n_classes, remedy)
    return np.asarray(values / values.sum())


def check_tau(tau: float) -> None:
    """Raise unless `tau` is finite."""
    if not np.isfinite(tau):
        raise EnergyAlignError(f"tau must be a finite number, got {tau}.")


def check_groups(groups: npt.ArrayLike, n_samples: int) -> Ints:
    """Convert group labels of any type to integers 0, 1, 2, ..."""
    values = np.asarray(groups)
    if values.shape != (n_samples,):
        raise EnergyAlignError(f"groups must have shape ({n_samples},), one per sample, got {values.shape}.")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def check_per_sample(name: str, values: Array | None, n_samples: int) -> Floats:
    """Return weights or repeats as an array: each is 0 or in 1e-100..1e100; all are 1 for None."""
    if values is None:
        return np.ones(n_samples)
    result = to_numpy(values).astype(np.float64)
    if result.shape != (n_samples,):
        raise EnergyAlignError(f"{name} must have shape ({n_samples},), one per sample, got {result.shape}.")
    if not np.all(np.isfinite(result)) or np.any(result < 0):
        raise EnergyAlignError(f"{name} must be finite and >= 0.")
    if np.any((result > 0) & ((result < 1e-100) | (result > 1e100))):  # their squares must be finite and > 0
        raise EnergyAlignError(f"{name} must be 0 or between 1e-100 and 1e100: divide all of them by the largest.")
    return result


def _positive(name: str, given: npt.ArrayLike, n_classes: int, remedy: str) -> Floats:
    values = np.asarray(given, dtype=np.float64)
    if values.shape != (n_classes,):
        raise EnergyAlignError(f"{name} must have shape ({n_classes},), one per class, got {values.shape}.")
    wrong = np.flatnonzero(~np.isfinite(values) | (values <= 0))
    if len(wrong):
        raise EnergyAlignError(
            f"{name} must be positive; wrong for {classes_of(wrong.tolist())} (counted from 0). {remedy}"
        )
    return values
