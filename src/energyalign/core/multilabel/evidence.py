"""Evidence of independent labels: each is a problem of two classes, without and with the label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.parts import IN_TURN, Engine, LogitPart, Rows, keep_rows
from energyalign.core.arrays import Array, Floats, Ints, to_numpy
from energyalign.core.errors import EnergyAlignError, classes_of
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.heads import IGNORE_INDEX, as_two_classes, open_head
from energyalign.core.names import Counts, table_by_class


@dataclass(frozen=True, eq=False)
class LabelPart:
    """The logits of one label, as two classes."""

    part: LogitPart
    column: int

    @property
    def n_rows(self) -> int:
        return self.part.n_rows

    def blocks(self) -> Iterator[Array]:
        for block in self.part.blocks():
            yield as_two_classes(block[:, self.column : self.column + 1])


@dataclass(frozen=True, eq=False)
class MultilabelEvidence:
    """Evidence of independent labels. Create it with `from_arrays` or `from_parts`.

    Attributes
    ----------
    labels : tuple of Evidence
        For each label, evidence of two classes: without and with it.
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
        """Create evidence from arrays in memory (NumPy, torch, ...).

        Parameters
        ----------
        logits : array of shape (n_samples, n_labels)
            Or (n, tokens, n_labels), or (n, n_labels, height, width).
        labels : array of the shape of the logits, optional
            0 or 1, or `ignore_index` if unknown.
        counts : array of shape (n_labels, 2), dict of pairs or pandas DataFrame, optional
            Training samples without and with each label, matched by name if they have names; default: as in `labels`.
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
        """Create evidence from parts, whose rows have one column per label."""
        names = [str(name) for name in (range(n_labels) if class_names is None else class_names)]
        if len(names) != n_labels:
            raise EnergyAlignError(f"class_names must have {n_labels} entries, one per label, got {len(names)}.")
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
            # Samples cannot be balanced for all labels at once: assume the frequencies of the training data.
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
        """Return the same samples, processed by `engine`."""
        return type(self)(tuple(own.with_engine(engine) for own in self.labels))

    def with_counts(self, counts: Counts) -> Self:
        """Return the same samples with these training counts, of shape (n_labels, 2)."""
        pairs = _check_pairs(counts, self.class_names)
        return type(self)(tuple(own.with_counts(pair) for own, pair in zip(self.labels, pairs, strict=True)))


def _check_matrix(labels: Array, shape: tuple[int, int], names: Sequence[str], ignore_index: int) -> Ints:
    """Return labels as integers, or raise for the first that is not 0, 1 or `ignore_index`."""
    values = to_numpy(labels)
    if values.shape != shape:
        raise EnergyAlignError(f"labels must have shape {shape}, one per logit, got {values.shape}.")
    wrong = np.argwhere(~np.isin(values, (0, 1, ignore_index)))
    if len(wrong):
        row, k = wrong[0].tolist()
        raise EnergyAlignError(
            f"label {names[k]} of sample {row} must be 1 (present), 0 (absent) or {ignore_index} (unknown), got "
            f"{values[row, k]}."
        )
    unknown = [names[k] for k in np.flatnonzero((values == ignore_index).all(axis=0)).tolist()]
    if unknown:
        raise EnergyAlignError(f"no sample has a known label for {classes_of(unknown)}: leave out these columns.")
    return values.astype(np.int64)


def _check_pairs(counts: Counts, names: Sequence[str]) -> Floats:
    pairs = np.asarray(table_by_class(counts, names, source="training counts"), dtype=np.float64)
    if pairs.shape != (len(names), 2):
        raise EnergyAlignError(
            f"training counts of independent labels must have shape ({len(names)}, 2), samples without and with each "
            f"label, got {pairs.shape}."
        )
    wrong = [names[k] for k in np.flatnonzero(~np.all(np.isfinite(pairs) & (pairs > 0), axis=1)).tolist()]
    if wrong:
        raise EnergyAlignError(
            f"training counts must be positive; wrong for {classes_of(wrong)}. Leave out labels that "
            "all or no training samples have."
        )
    return pairs
