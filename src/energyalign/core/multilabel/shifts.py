"""The shifts of independent labels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.shifts_json import MULTILABEL_SCHEMA, VERSION, dump_labels, from_document, parse_document
from energyalign.core._io.terminal import clean
from energyalign.core.arrays import Array, Floats, Ints, namespace, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import add_shifts, as_floating, refuse_nan, refuse_other_columns
from energyalign.core.objectives import score_name, show_error, show_score
from energyalign.core.shifts import Shifts, list_shifts, load_text


class MeanScore(NamedTuple):
    """Cross-fitted scores of the raw and the aligned model, averaged over the `n_labels` labels with scores.

    `error` is an upper bound on the standard error of the difference: the mean of the labels' standard errors.
    """

    raw: float
    chosen: float
    error: float
    n_labels: int


@dataclass(frozen=True, eq=False, repr=False)
class MultilabelShifts:
    """One shift per independent label. Returned by a fit, or loaded from JSON.

    Attributes
    ----------
    labels : tuple of Shifts
        For each label, the shifts of two classes: without and with it.
    """

    labels: tuple[Shifts, ...]

    def __repr__(self) -> str:
        return (
            f"MultilabelShifts({self.n_classes} labels, estimator={self.estimator!r}, scoring={self.scoring!r}, "
            f"evidence={self.labels[0].evidence_kind!r}, concerns={len(self.concerns)})"
        )

    def summary(self) -> str:
        """Describe the fit in at most ten lines: mean score, largest and smallest shifts, all concerns."""
        head = (
            f"Shifts of {self.n_classes} independent labels by {self.estimator} for {score_name(self.scoring)}, from "
            f"{max(own.n_samples for own in self.labels):,.0f} {self.labels[0].evidence_kind} samples."
        )
        rows = list_shifts(self.values, self.standard_errors, self.class_names, self.concerns)
        return clean("\n".join([head, *self.describe_score(), *rows]))

    @property
    def mean_score(self) -> MeanScore | None:
        """Mean cross-fitted score of the labels; None if no label could be scored."""
        selections = [own.selection for own in self.labels if own.selection is not None]
        scored = [(*own.raw_and_chosen, own.gain_error or 0.0) for own in selections if own.raw_and_chosen]
        if not scored:
            return None
        raw, chosen, error = np.mean(scored, axis=0).tolist()
        return MeanScore(raw, chosen, error, len(scored))

    def describe_score(self) -> list[str]:
        """Return a list with a sentence on the mean score; empty if there is none."""
        if self.mean_score is None:
            return []
        *scores, error, n_labels = self.mean_score
        raw, chosen = (show_score(self.scoring, score) for score in scores)
        which = "the labels" if n_labels == self.n_classes else f"{n_labels} of {self.n_classes} labels"
        return [
            f"Cross-fitted {score_name(self.scoring)}, mean over {which}: raw {raw}, aligned {chosen} (standard error "
            f"of the difference at most {show_error(self.scoring, error)})."
        ]

    @property
    def values(self) -> Floats:
        """The shift of each label: what is added to its logit."""
        return np.array([own.values[1] - own.values[0] for own in self.labels])

    @property
    def standard_errors(self) -> Floats:
        """Standard error of each shift."""
        return np.array([own.standard_errors.max() for own in self.labels])  # the anchor has 0

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(own.names_of([1])[0] for own in self.labels)

    @property
    def estimator(self) -> str:
        """Name of the estimator; several names if the labels differ."""
        return ", ".join(dict.fromkeys(own.estimator for own in self.labels))

    @property
    def scoring(self) -> str:
        """Name of the objective."""
        return self.labels[0].scoring

    @property
    def concerns(self) -> tuple[str, ...]:
        """Reasons not to trust an estimate, with remedies."""
        return tuple(concern for own in self.labels for concern in own.concerns)

    def scaled(self, strength: float) -> Self:
        """Return the shifts times `strength`: 0 is the raw model, 1 changes nothing."""
        return type(self)(tuple(own.scaled(strength) for own in self.labels))

    def columns_for(self, shape: tuple[int, ...]) -> Floats:
        """Return what to add to each column of logits of this shape."""
        refuse_other_columns(shape, self.n_classes)
        return self.values

    def apply(self, logits: Array, *, inplace: bool = False) -> Array:
        """Add the shifts to the logits; keep namespace, dtype, device and shape."""
        logits = as_floating(logits)
        columns = self.columns_for(logits.shape)
        refuse_nan(logits)
        return add_shifts(logits, columns, inplace=inplace)

    def predict(self, logits: Array) -> Ints:
        """Return 1 for each label whose aligned logit is above 0, else 0, in the shape of the logits."""
        return to_numpy(self._corrected(logits) > 0).astype(np.int64)

    def predict_proba(self, logits: Array) -> Array:
        """Return the sigmoid of the aligned logits."""
        corrected = self._corrected(logits)
        xp = namespace(corrected)
        small = xp.exp(-xp.abs(corrected))  # never overflows
        return xp.where(corrected < 0, small, xp.ones_like(small)) / (1.0 + small)

    def predict_log_proba(self, logits: Array) -> Array:
        """Return the logarithm of `predict_proba`, also where a probability rounds to 0."""
        corrected = self._corrected(logits)
        xp = namespace(corrected)
        return xp.where(corrected < 0, corrected, xp.zeros_like(corrected)) - xp.log1p(xp.exp(-xp.abs(corrected)))

    def _corrected(self, logits: Array) -> Array:
        """Add the shifts in at least float32."""
        return self.apply(working_precision(as_floating(logits)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write readable JSON, label by label. An existing file is replaced atomically."""
        text = self.to_json()
        with atomic_write(path) as stream:
            stream.write(text)

    def to_json(self) -> str:
        """Return the text that `save` writes."""
        return dump_labels(self.labels)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MultilabelShifts:
        """Read a file written by `save`."""
        shifts = load_shifts(path)
        if not isinstance(shifts, MultilabelShifts):
            raise EnergyAlignError(f"{path} has shifts of classes, not of independent labels: use Shifts.load.")
        return shifts


def load_shifts(path: str | os.PathLike[str]) -> Shifts | MultilabelShifts:
    """Read shifts of classes or of independent labels, depending on the file."""
    return load_text(path, parse_shifts)


def parse_shifts(text: str) -> Shifts | MultilabelShifts:
    """Parse the text that `to_json` of either class returns."""
    document = parse_document(text)
    if not isinstance(document, dict) or document.get("schema") != MULTILABEL_SCHEMA:
        return from_document(document)
    labels = document.get("labels")
    if document.get("version") != VERSION or not isinstance(labels, list) or not labels:
        raise EnergyAlignError(f'shifts of independent labels must have "version": {VERSION} and a list "labels".')
    shifts = tuple(map(from_document, labels))
    for number, own in enumerate(shifts):
        if own.n_classes != 2:
            raise EnergyAlignError(
                f"label {number} must have two shifts, without and with it, got {own.n_classes}. Save the shifts again."
            )
    return MultilabelShifts(shifts)
