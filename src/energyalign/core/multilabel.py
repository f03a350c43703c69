"""Independent labels: a sigmoid each, so that each is a problem of two classes, without and with the label."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.parts import IN_TURN, Engine, LogitPart, Rows, keep_rows
from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.shifts_json import MULTILABEL_SCHEMA, VERSION, dump_labels, from_document, parse_document
from energyalign.core.arrays import Array, Floats, Ints, namespace, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning, classes_of, warn_untrusted
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.fitting import fit_shifts
from energyalign.core.heads import (
    IGNORE_INDEX,
    add_shifts,
    as_two_classes,
    open_head,
    open_to_correct,
    refuse_nan,
    refuse_other_columns,
)
from energyalign.core.names import Counts, counts_by_class, table_by_class
from energyalign.core.objectives import show_score
from energyalign.core.objectives.constraints import minima_by_class
from energyalign.core.shifts import Shifts, list_shifts, load_text


@dataclass(frozen=True, eq=False)
class LabelPart:
    """The logits of one label in a part of the evidence, as two classes."""

    part: LogitPart
    column: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.part.n_rows

    def blocks(self) -> Iterator[Array]:
        """The rows from first to last."""
        for block in self.part.blocks():
            yield as_two_classes(block[:, self.column : self.column + 1])


@dataclass(frozen=True, eq=False)
class MultilabelEvidence:
    """Evidence of each label: two classes, without and with it.

    Use `from_arrays` or `from_parts`.

    Attributes
    ----------
    labels : tuple of Evidence
    """

    labels: tuple[Evidence, ...]

    @classmethod
    def from_arrays(
        cls,
        logits: Array,
        labels: Array | None = None,
        *,
        repeats: Array | None = None,
        counts: Counts | None = None,
        kind: EvidenceKind = "training",
        class_names: Sequence[str] | None = None,
        groups: npt.ArrayLike | None = None,
        ignore_index: int = IGNORE_INDEX,
    ) -> Self:
        """Evidence that is in memory (NumPy, torch, ...).

        Parameters
        ----------
        logits : array of shape (n_samples, n_labels)
            Or (n, tokens, n_labels), or (n, n_labels, height, width).
        labels : array of the shape of the logits, optional
            0 or 1, or `ignore_index` where a label is not known.
        counts : array of shape (n_labels, 2), dict of pairs or pandas DataFrame, optional
            Training samples without and with each label, by name wherever they have names; by default as in `labels`.
        repeats, kind, class_names, groups
            As for `Evidence.from_arrays`.
        """
        rows = open_head(logits, labels, multilabel=True)
        return cls.from_parts(
            [Rows(rows.logits)], rows.logits.shape[1], rows.labels,
            repeats=rows.per_row("repeats", repeats), counts=counts, kind=kind, class_names=class_names,
            groups=rows.groups(groups), ignore_index=ignore_index,
        )  # fmt: skip

    @classmethod
    def from_parts(
        cls,
        parts: Sequence[LogitPart],
        n_labels: int,
        labels: Array | None = None,
        *,
        repeats: Array | None = None,
        counts: Counts | None = None,
        kind: EvidenceKind = "training",
        class_names: Sequence[str] | None = None,
        groups: npt.ArrayLike | None = None,
        ignore_index: int = IGNORE_INDEX,
        engine: Engine = IN_TURN,
    ) -> Self:
        """Evidence in parts, of rows with a column for each label."""
        names = [str(name) for name in (range(n_labels) if class_names is None else class_names)]
        if len(names) != n_labels:
            raise EnergyAlignError(f"{len(names)} class names were given for {n_labels} labels.")
        n_rows = sum(part.n_rows for part in parts)
        matrix = None if labels is None else _check_matrix(labels, (n_rows, n_labels), names, ignore_index)
        pairs = None if counts is None else _check_pairs(counts, names)

        def evidence_of(k: int) -> Evidence:
            keep = np.ones(n_rows, dtype=bool) if matrix is None else matrix[:, k] != ignore_index
            evidence = Evidence.from_parts(
                [LabelPart(part, k) for part in keep_rows(parts, keep)],
                2,
                None if matrix is None else matrix[keep, k],
                repeats=None if repeats is None else to_numpy(repeats)[keep],
                counts=None if pairs is None else pairs[k],
                kind=kind,
                class_names=(f"not {names[k]}", names[k]),
                groups=None if groups is None else np.asarray(groups)[keep],
                engine=engine,
            )
            seen = evidence.label_counts
            # No sample is balanced for every label by chance or by design: its frequencies are those of the data.
            if evidence.counts is None and seen is not None and seen.all():
                return replace(evidence, counts=seen, counts_from_labels=True)
            return evidence

        return cls(tuple(map(evidence_of, range(n_labels))))

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(own.names_of([1])[0] for own in self.labels)

    def with_engine(self, engine: Engine) -> Self:
        """Return the same evidence, to be worked on by this engine."""
        return type(self)(tuple(replace(own, engine=engine) for own in self.labels))

    def with_counts(self, counts: Counts) -> Self:
        """Return the same samples with these training counts, (n_labels, 2)."""
        pairs = _check_pairs(counts, self.class_names)
        return type(self)(tuple(own.with_counts(pair) for own, pair in zip(self.labels, pairs, strict=True)))


def fit_multilabel(
    evidence: MultilabelEvidence, *, target_prior: Counts | None = None, **options: Any
) -> MultilabelShifts:
    """Fit the shifts of each label alone.

    Parameters
    ----------
    evidence : MultilabelEvidence
    target_prior : array of shape (n_labels,), dict or pandas Series, optional
        How probable each label is where the model will predict; a half if not given.
    **options
        As for `energyalign.fit_shifts`; `minimum_recall` and `minimum_precision` by label.
    """
    names = evidence.class_names
    targets = [None] * len(names) if target_prior is None else _check_targets(target_prior, names)
    asked = ("minimum_recall", "minimum_precision")
    minima = {option: minima_by_class(options.pop(option, None), names, option) for option in asked}

    def fit(k: int) -> Shifts:
        aims: dict[str, Any] = {option: {names[k]: own[k]} for option, own in minima.items() if k in own}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # they do not name the label
            shifts = fit_shifts(evidence.labels[k], target_prior=targets[k], **aims, **options)
        return replace(shifts, concerns=tuple(f"label {names[k]}: {concern}" for concern in shifts.concerns))

    fitted = MultilabelShifts(tuple(map(fit, range(len(names)))))
    for concern in fitted.concerns:
        warn_untrusted(concern)
    return fitted


def fit_head(evidence: Evidence | MultilabelEvidence, **options: Any) -> Shifts | MultilabelShifts:
    """Fit shifts of classes or of independent labels, whichever the evidence is of."""
    if isinstance(evidence, MultilabelEvidence):
        return fit_multilabel(evidence, **options)
    return fit_shifts(evidence, **options)


class MeanScore(NamedTuple):
    """Cross-fitted scores, averaged over the labels that have one.

    Attributes
    ----------
    raw, chosen : float
    error : float
        Bound of the standard error of their difference: the mean of those of the labels, which share their samples.
    n_labels : int
    """

    raw: float
    chosen: float
    error: float
    n_labels: int


@dataclass(frozen=True, eq=False, repr=False)
class MultilabelShifts:
    """One shift per independent label, and where it came from. Made by a fit, or loaded from JSON.

    Attributes
    ----------
    labels : tuple of Shifts
        Of each label: two classes, without and with it.
    """

    labels: tuple[Shifts, ...]

    def __repr__(self) -> str:
        return (
            f"MultilabelShifts({self.n_classes} labels, estimator={self.estimator!r}, scoring={self.scoring!r}, "
            f"evidence={self.labels[0].evidence_kind!r}, concerns={len(self.concerns)})"
        )

    def summary(self) -> str:
        """In at most ten lines: what was fitted, the mean score, the largest and smallest shifts, all concerns."""
        head = (
            f"Shifts of {self.n_classes} independent labels by {self.estimator} for {self.scoring}, from "
            f"{max(own.n_samples for own in self.labels):,.0f} {self.labels[0].evidence_kind} samples."
        )
        rows = list_shifts(self.values, self.standard_errors, self.class_names, self.concerns)
        return "\n".join([head, *self.describe_score(), *rows])

    @property
    def mean_score(self) -> MeanScore | None:
        """What was aimed at, raw and as chosen; None if no label could be scored."""
        selections = [own.selection for own in self.labels if own.selection is not None]
        scored = [(*found.raw_and_chosen, found.gain_error or 0.0) for found in selections if found.raw_and_chosen]
        if not scored:
            return None
        raw, chosen, error = np.mean(scored, axis=0).tolist()
        return MeanScore(raw, chosen, error, len(scored))

    def describe_score(self) -> list[str]:
        """The mean score in a sentence; nothing if there is none."""
        found = self.mean_score
        if found is None:
            return []
        raw, chosen, error = (show_score(self.scoring, value) for value in (found.raw, found.chosen, found.error))
        which = "the labels" if found.n_labels == self.n_classes else f"{found.n_labels} of {self.n_classes} labels"
        return [
            f"Cross-fitted {self.scoring}, mean over {which}: raw {raw}, aligned {chosen} (standard error of the "
            f"difference at most {error})."
        ]

    @property
    def values(self) -> Floats:
        """What is added to the logit of each label."""
        return np.array([own.values[1] - own.values[0] for own in self.labels])

    @property
    def standard_errors(self) -> Floats:
        """Of each value, as the evidence varies."""
        return np.array([own.standard_errors.max() for own in self.labels])  # that of the anchor is 0

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
        """Name of the estimator, or of those that the labels have."""
        return ", ".join(dict.fromkeys(own.estimator for own in self.labels))

    @property
    def scoring(self) -> str:
        """What the shifts were chosen for."""
        return self.labels[0].scoring

    @property
    def concerns(self) -> tuple[str, ...]:
        """Reasons not to trust an estimate, with remedies."""
        return tuple(concern for own in self.labels for concern in own.concerns)

    def scaled(self, strength: float) -> Self:
        """The same correction, `strength` times as large: 0 is the raw model, 1 leaves it as it is."""
        return type(self)(tuple(own.scaled(strength) for own in self.labels))

    def columns_for(self, shape: tuple[int, ...]) -> Floats:
        """What is added to each column of logits of this shape."""
        refuse_other_columns(shape, self.n_classes)
        return self.values

    def apply(self, logits: Array, *, inplace: bool = False) -> Array:
        """Logits plus shifts: an array of the same namespace, dtype, device and shape."""
        logits = open_to_correct(logits)
        columns = self.columns_for(logits.shape)
        refuse_nan(logits)
        return add_shifts(logits, columns, inplace=inplace)

    def predict(self, logits: Array) -> Ints:
        """1 for the labels whose corrected logit is above 0, else 0, in the shape of the logits."""
        return to_numpy(self._corrected(logits) > 0).astype(np.int64)

    def predict_proba(self, logits: Array) -> Array:
        """Sigmoid of the corrected logits."""
        corrected = self._corrected(logits)
        xp = namespace(corrected)
        small = xp.exp(-xp.abs(corrected))  # never overflows
        return xp.where(corrected < 0, small, xp.ones_like(small)) / (1.0 + small)

    def predict_log_proba(self, logits: Array) -> Array:
        """Logarithm of `predict_proba`, exact also where a probability rounds to 0."""
        corrected = self._corrected(logits)
        xp = namespace(corrected)
        return xp.where(corrected < 0, corrected, xp.zeros_like(corrected)) - xp.log1p(xp.exp(-xp.abs(corrected)))

    def _corrected(self, logits: Array) -> Array:
        """Logits plus shifts in at least float32."""
        return self.apply(working_precision(open_to_correct(logits)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON that a person can read, the shifts of one label after another. A file is replaced as a whole."""
        text = self.to_json()
        with atomic_write(path) as stream:
            stream.write(text)

    def to_json(self) -> str:
        """The text of the file that `save` writes."""
        return dump_labels(self.labels)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MultilabelShifts:
        """Read what `save` wrote; anything else is refused with the reason."""
        shifts = load_shifts(path)
        if not isinstance(shifts, MultilabelShifts):
            raise EnergyAlignError(f"{path} has shifts of classes, not of independent labels: use Shifts.load.")
        return shifts


def load_shifts(path: str | os.PathLike[str]) -> Shifts | MultilabelShifts:
    """Read shifts of classes or of independent labels, whichever the file has."""
    return load_text(path, parse_shifts)


def parse_shifts(text: str) -> Shifts | MultilabelShifts:
    """Read the text that `to_json` of either gives."""
    document = parse_document(text)
    if not isinstance(document, dict) or document.get("schema") != MULTILABEL_SCHEMA:
        return from_document(document)
    labels = document.get("labels")
    if document.get("version") != VERSION or not isinstance(labels, list) or not labels:
        raise EnergyAlignError(f'shifts of labels need "version": {VERSION} and "labels", a list of shifts.')
    shifts = tuple(map(from_document, labels))
    if any(own.n_classes != 2 for own in shifts):
        raise EnergyAlignError("shifts of a label are for two classes, without and with it.")
    return MultilabelShifts(shifts)


def _check_matrix(labels: Array, shape: tuple[int, int], names: Sequence[str], ignore_index: int) -> Ints:
    """Labels as 0, 1 and `ignore_index`, or the error that names the first that is neither."""
    values = to_numpy(labels)
    if values.shape != shape:
        raise EnergyAlignError(
            f"labels must have shape {shape}, 0 or 1 for each label of each row of logits, not {values.shape}."
        )
    wrong = np.argwhere(~np.isin(values, (0, 1, ignore_index)))
    if len(wrong):
        row, k = wrong[0].tolist()
        raise EnergyAlignError(
            f"label {names[k]} of sample {row} is {values[row, k]}: expected 1 (has it), 0 (has it not), or "
            f"{ignore_index} (not known)."
        )
    unknown = [names[k] for k in np.flatnonzero((values == ignore_index).all(axis=0)).tolist()]
    if unknown:
        raise EnergyAlignError(f"no sample is labelled for {classes_of(unknown)}: leave them out of logits and labels.")
    return values.astype(np.int64)


def _check_targets(target_prior: Counts, names: Sequence[str]) -> list[Floats | None]:
    """Without and with each label."""
    n_labels = len(names)
    given = np.asarray(counts_by_class(target_prior, names, n_labels, source="target prior")[0], dtype=np.float64)
    if given.shape != (n_labels,) or not np.all((given > 0) & (given < 1)):
        raise EnergyAlignError(
            f"target prior of independent labels must have shape ({n_labels},), a probability between 0 and 1 for each."
        )
    return list(np.column_stack([1.0 - given, given]))


def _check_pairs(counts: Counts, names: Sequence[str]) -> Floats:
    pairs = np.asarray(table_by_class(counts, names, source="training counts"), dtype=np.float64)
    if pairs.shape != (len(names), 2):
        raise EnergyAlignError(
            f"training counts of independent labels must have shape ({len(names)}, 2), samples without and with each "
            f"label, not {pairs.shape}."
        )
    wrong = [names[k] for k in np.flatnonzero(~np.all(np.isfinite(pairs) & (pairs > 0), axis=1)).tolist()]
    if wrong:
        raise EnergyAlignError(
            f"training counts must be positive; wrong for {classes_of(wrong)}. A label that all training samples have, "
            "or none, has nothing to correct: leave it out."
        )
    return pairs
