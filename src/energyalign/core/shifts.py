"""Shifts, the result of a fit: one number per class to add to the logits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.largest import largest_corrected
from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.strict_json import read_text
from energyalign.core._io.terminal import clean
from energyalign.core.arrays import Array, Floats, namespace, scale_errors, to_numpy, working_precision
from energyalign.core.checks import check_target_prior
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, warn_untrusted
from energyalign.core.heads import (
    add_shifts,
    as_floating,
    as_two_classes,
    class_axis,
    is_one_logit,
    refuse_nan,
    refuse_other_columns,
)
from energyalign.core.objectives import score_name
from energyalign.core.probabilities import TAKEN_AS_LOGITS, are_logarithms, are_probabilities, log_probabilities
from energyalign.core.selection.record import UNDER_TARGET, UNIFORM, Selection

Loaded = TypeVar("Loaded")
_MAX_SHOWN = 6  # classes in a summary of at most ten lines


@dataclass(frozen=True, eq=False, repr=False)
class Shifts:
    """One shift per class, and how it was fitted. Returned by a fit, or loaded from JSON.

    Attributes
    ----------
    values : array of shape (n_classes,)
        The shifts: what is added to the logits. 0 for the anchor under a uniform target prior.
    standard_errors : array of shape (n_classes,)
        Standard error of each shift relative to the anchor.
    clusters : Clusters
        Which classes share a shift, and the anchor.
    target_prior : array of shape (n_classes,)
        The label distribution to predict for.
    estimator : str
        Name of the estimator.
    tau : float
        Scale of ``prior``.
    strength : float
        Factor of the estimator's shifts: 0 is the raw model, 1 the estimate. 1 also if the objective added offsets,
        so that the shifts are not a multiple of the estimate.
    energies : array of shape (n_classes,) or None
        Negative free energies of the raw model on the evidence.
    effective_samples : array of shape (n_classes,) or None
        Effective sample size of each energy.
    counts : array of shape (n_classes,) or None
        Training samples per class.
    class_names : tuple of str or None
    evidence_kind : str
        ``training``, ``out-of-fold`` or ``held-out``.
    from_probabilities : bool
        Whether the evidence held probabilities. If so, `apply` and `predict` take their logarithms too.
    n_samples : float
        Number of samples of evidence.
    scoring : str
        Name of the objective.
    selection : Selection or None
        What `auto` compared and why it chose.
    concerns : tuple of str
        Reasons not to trust the estimate, with remedies; also issued as warnings by the fit.
    """

    values: Floats
    standard_errors: Floats
    clusters: Clusters
    target_prior: Floats
    estimator: str
    tau: float = 1.0
    strength: float = 1.0
    energies: Floats | None = None
    effective_samples: Floats | None = None
    counts: Floats | None = None
    class_names: tuple[str, ...] | None = None
    evidence_kind: str = "training"
    from_probabilities: bool = False
    n_samples: float = 0.0
    scoring: str = "balanced_accuracy"
    selection: Selection | None = None
    concerns: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("values", "standard_errors", "target_prior", "energies", "effective_samples", "counts"):
            given = getattr(self, name)
            if given is None:
                continue
            array = np.array(given, dtype=np.float64)  # a copy, which the caller cannot change
            if array.shape != (self.clusters.n_classes,):
                raise EnergyAlignError(
                    f"shifts: {name} must have shape ({self.clusters.n_classes},), one per class, got {array.shape}."
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if not np.all(np.isfinite(self.values)):
            wrong = np.flatnonzero(~np.isfinite(self.values))[0]
            raise EnergyAlignError(f"shifts: values must be finite, got {self.values[wrong]} for class {wrong}.")
        if not (np.all(self.target_prior > 0) and np.isclose(self.target_prior.sum(), 1.0)):
            raise EnergyAlignError("shifts: target_prior must be positive and sum to one.")
        if self.class_names is not None and len(self.class_names) != self.n_classes:
            raise EnergyAlignError(
                f"shifts: got {len(self.class_names)} class names for {self.n_classes} classes: give one per class."
            )

    @property
    def n_classes(self) -> int:
        return self.clusters.n_classes

    def __repr__(self) -> str:
        return (
            f"Shifts({self.n_classes} classes, estimator={self.estimator!r}, scoring={self.scoring!r}, "
            f"strength={self.strength:.2f}, evidence={self.evidence_kind!r}, concerns={len(self.concerns)})"
        )

    def summary(self) -> str:
        """Describe the fit in at most ten lines: how it was chosen, largest and smallest shifts, all concerns."""
        head = (
            f"Shifts of {self.n_classes} classes by {self.estimator} ({self.clusters.name}) for {self.aim}, from "
            f"{self.n_samples:,.0f} {self.evidence_kind} samples."
        )
        chosen = [] if self.selection is None else [f"Chosen: {self.selection.reason}"]
        names = self.names_of(range(self.n_classes))
        rows = list_shifts(self.values, self.standard_errors, names, self.concerns)
        return clean("\n".join([head, *chosen, *rows]))

    @property
    def aim(self) -> str:
        """Name of the objective in text, with the class for F1, and with the target prior if it is not uniform."""
        if np.ptp(self.log_target) > UNIFORM:
            return UNDER_TARGET
        return f"f1 of class {self.names_of([1])[0]}" if self.scoring == "f1" else score_name(self.scoring)

    @property
    def aligned_energies(self) -> Floats | None:
        """Negative free energies of the aligned model."""
        return None if self.energies is None else self.energies + self.values

    @property
    def log_target(self) -> Floats:
        """What the target prior adds to the shifts: 0 if it is uniform or the objective is not balanced accuracy."""
        if self.scoring != "balanced_accuracy":
            return np.zeros(self.n_classes)
        return np.asarray(np.log(self.target_prior * self.n_classes))

    def apply(self, logits: Array, *, inplace: bool = False) -> Array:
        """Add the shifts to the logits; keep namespace, dtype, device and shape.

        The shape is (n, n_classes), (n, tokens, n_classes) or (n, n_classes, height, width); for two classes also (n,)
        or one column: then the difference of the two shifts is added. In half precision, a small shift may be rounded
        away; `predict` and `predict_proba` add in float32. Shifts that were fitted on probabilities take probabilities
        or their logarithms; others take logits. If logits look like probabilities, their logarithm is taken, with a
        warning.
        """
        ready = self._as_logits(logits)
        refuse_nan(ready)
        columns = self.columns_for(ready.shape)
        if not inplace:
            return add_shifts(ready, columns)
        if ready is not logits:
            logits[...] = ready
        return add_shifts(logits, columns, inplace=True)

    def columns_for(self, shape: tuple[int, ...]) -> Floats:
        """Return what to add to each column of logits of this shape: the shifts, or their difference for one logit."""
        if is_one_logit(shape, self.n_classes):
            return self.values[1:] - self.values[:1]
        refuse_other_columns(shape, self.n_classes)
        return self.values

    def predict(self, logits: Array) -> npt.NDArray[np.int64]:
        """Return the class with the largest aligned logit, per sample, token or pixel."""
        logits = self._as_logits(logits)
        if isinstance(logits, np.ndarray) and logits.ndim == 2 and logits.shape[1] > 1:
            classes, undefined = largest_corrected(logits, self.values)
            if undefined:
                refuse_nan(logits)
            return classes
        corrected = self._corrected(logits)
        axis = class_axis(corrected.ndim)
        return to_numpy(namespace(corrected).argmax(corrected, axis=axis)).astype(np.int64, copy=False)

    def predict_proba(self, logits: Array) -> Array:
        """Return the softmax of the aligned logits; for one logit, the probabilities of both classes."""
        below = self._below_largest(logits)
        xp = namespace(below)
        scaled = xp.exp(below)
        return scaled / xp.sum(scaled, axis=class_axis(below.ndim), keepdims=True)

    def predict_log_proba(self, logits: Array) -> Array:
        """Return the logarithm of `predict_proba`, also where a probability rounds to 0."""
        below = self._below_largest(logits)
        xp = namespace(below)
        return below - xp.log(xp.sum(xp.exp(below), axis=class_axis(below.ndim), keepdims=True))

    def _below_largest(self, logits: Array) -> Array:
        """Return aligned logits minus the largest of each sample."""
        corrected = self._corrected(self._as_logits(logits))
        xp, axis = namespace(corrected), class_axis(corrected.ndim)
        largest = xp.max(corrected, axis=axis, keepdims=True)
        if not bool(xp.all(xp.isfinite(largest))):
            raise EnergyAlignError(
                "a sample has +inf, or -inf for every class: its probabilities are undefined. Fix the model or drop "
                "this sample."
            )
        return corrected - largest

    def _corrected(self, logits: Array) -> Array:
        """Add the shifts in at least float32, with one column per class."""
        refuse_nan(logits)
        ready = working_precision(logits)
        return add_shifts(as_two_classes(ready) if is_one_logit(ready.shape, self.n_classes) else ready, self.values)

    def scaled(self, strength: float) -> Self:
        """Return the shifts times `strength`: 0 is the raw model, 1 changes nothing.

        The target prior p_t(y) is scaled too: it becomes p_t(y) ** strength, normalised.
        """
        if not np.isfinite(strength):
            raise EnergyAlignError(f"strength must be finite, got {strength}.")
        target = self.target_prior
        if self.scoring == "balanced_accuracy" and strength != 1:  # others do not include log p_t(y)
            log_target = strength * np.log(target)
            target = np.exp(np.maximum(log_target - log_target.max(), np.log(np.finfo(np.float64).tiny)))
            target = target / target.sum()
        return replace(
            self,
            values=strength * self.values,
            target_prior=target,
            standard_errors=scale_errors(self.standard_errors, strength),
            strength=strength * self.strength,
        )

    def with_target(self, prior: npt.ArrayLike | None) -> Self:
        """Return the shifts for another target prior: replace log p_t(y)."""
        if self.scoring != "balanced_accuracy":
            raise EnergyAlignError(
                f"these shifts were fitted for {self.scoring}: fit again with target_prior=... for another target."
            )
        target = check_target_prior(prior, self.n_classes, self.class_names)
        return replace(self, values=self.values + np.log(target / self.target_prior), target_prior=target)

    def names_of(self, classes: Sequence[int]) -> list[str]:
        """Return the names of these classes, or their numbers."""
        return [str(k) if self.class_names is None else self.class_names[k] for k in classes]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write readable JSON, one class per line. An existing file is replaced atomically."""
        text = self.to_json()
        with atomic_write(path) as stream:
            stream.write(text)

    def to_json(self) -> str:
        """Return the text that `save` writes."""
        from energyalign.core._io.shifts_json import dump

        return dump(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Shifts:
        """Read a file written by `save`."""
        from energyalign.core._io.shifts_json import parse

        return load_text(path, parse)

    def _as_logits(self, scores: Array) -> Array:
        """Check the shape, and take logarithms of probabilities."""
        scores = as_floating(scores)
        self.columns_for(scores.shape)
        if is_one_logit(scores.shape, self.n_classes):
            return scores
        if self.from_probabilities:
            refuse_nan(scores)
            if are_logarithms(scores):
                return scores
        elif are_probabilities(scores):
            warn_untrusted(TAKEN_AS_LOGITS)
        else:
            return scores
        return namespace(scores).astype(log_probabilities(scores), scores.dtype)


def list_shifts(values: Floats, errors: Floats, names: Sequence[str], concerns: Sequence[str]) -> list[str]:
    """Return one line per shift, largest first and abridged, and a line of concerns."""
    order = np.argsort(-values, kind="stable").tolist()
    rows = [f"  {values[k]:+8.3f} +- {errors[k]:.3f}  {names[k]}" for k in order]
    half, left_out = _MAX_SHOWN // 2, len(rows) - _MAX_SHOWN
    if left_out > 0:
        rows[half:-half] = [f"  ... {left_out} more"]
    return [*rows, f"Concerns: {' '.join(concerns)}"] if concerns else rows


def load_text(path: str | os.PathLike[str], parse: Callable[[str], Loaded]) -> Loaded:
    """Call `parse` on the text of a file of shifts, and name the file in errors."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read shifts from {path}: {error}. Check the path.") from error
    try:
        return parse(text)
    except EnergyAlignError as error:
        raise EnergyAlignError(f"{path}: {error}") from error
