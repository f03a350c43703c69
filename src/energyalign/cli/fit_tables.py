"""The tables that `energyalign fit` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from energyalign.cli.terminal import print_table
from energyalign.core.estimators import look_up_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts
from energyalign.core.objectives import score_name, show_score
from energyalign.core.shifts import Shifts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from energyalign.core.before_after import BeforeAfter
    from energyalign.core.metrics import ClassScores
    from energyalign.core.selection.record import Selection

_MAX_ROWS = 24


def print_fit(
    console: Console, evidence: Evidence | MultilabelEvidence, shifts: Shifts | MultilabelShifts, scores: Any
) -> None:
    """Print the summary, shifts and scores of a fit."""
    if isinstance(shifts, MultilabelShifts):
        _print_labels(console, shifts, scores)
        if scores is None and any(look_up_estimator(label.estimator).reads_evidence for label in shifts.labels):
            console.print("No labels given (--labels): each label is assumed to apply to half of the samples.")
        return
    assert isinstance(evidence, Evidence)
    assert isinstance(shifts, Shifts)
    print_summary(console, evidence, shifts)
    print_shifts(console, shifts)
    if scores is not None:
        print_scores(console, scores[0], scores[1], shifts)
    if shifts.selection is not None:
        print_selection(console, shifts.selection, shifts.scoring)


def _print_labels(console: Console, shifts: MultilabelShifts, scores: Sequence[BeforeAfter] | None) -> None:
    """Print a row per independent label, with cross-fitted scores or else balanced accuracies on the samples."""
    columns = ["label", "samples", "without", "with", "estimator", "shift", "± std. error"]
    rows = [
        [shifts.class_names[k], f"{label.n_samples:,.0f}", _number(label.counts, 0, ",.0f"),
         _number(label.counts, 1, ",.0f"), label.estimator, f"{shifts.values[k]:+.3f}",
         _number(shifts.standard_errors, k)]
        for k, label in enumerate(shifts.labels)
    ]  # fmt: skip
    cross_fitted = shifts.describe_score()
    if cross_fitted or scores is not None:
        metric = shifts.scoring if cross_fitted else "balanced_accuracy"
        columns += [f"{model} {score_name(metric).replace('_', ' ')}" for model in ("raw", "aligned")]
    for k, label in enumerate(shifts.labels):
        if cross_fitted:
            pair = None if label.selection is None else label.selection.raw_and_chosen
            rows[k] += [show_score(shifts.scoring, score) for score in pair or (None, None)]
        elif scores is not None:
            rows[k] += [f"{_percent(score.balanced_accuracy)} %" for score in scores[k]]
    print_table(console, columns, rows)
    for line in cross_fitted or ([] if scores is None else [_on_these_samples(shifts.labels[0])]):
        console.print(Text(line))


def print_summary(console: Console, evidence: Evidence, shifts: Shifts) -> None:
    """Print one sentence on the evidence and the estimator."""
    chosen = "chosen by auto" if shifts.selection is not None else "as given"
    labelled = "labelled" if evidence.labels is not None else "unlabelled"
    console.print(
        Text(
            f"{evidence.n_samples:,} {labelled} {evidence.kind} samples, {evidence.n_classes:,} classes. "
            f"Estimator {shifts.estimator}, sharing {shifts.clusters.name} ({chosen}), for {shifts.aim}."
        )
    )
    if evidence.labels is None and look_up_estimator(shifts.estimator).reads_evidence:
        console.print("No labels given (--labels): the samples are assumed to be class-balanced.")
    if evidence.counts_from_labels:
        console.print("No training counts given (--counts): using the label counts of these samples.")


def print_shifts(console: Console, shifts: Shifts) -> None:
    """Print a row per class, or per cluster where classes share a shift."""
    shared = shifts.clusters.n_clusters < shifts.n_classes
    rows = _cluster_rows(shifts) if shared and shifts.n_classes > _MAX_ROWS else _class_rows(shifts)
    if len(rows) > _MAX_ROWS:
        half = _MAX_ROWS // 2
        left_out = len(rows) - 2 * half
        rows = [*rows[:half], [f"... {left_out:,} more"] + [""] * (len(rows[0]) - 1), *rows[-half:]]
    first = "cluster" if rows and rows[0][0].startswith("cluster") else "class"
    print_table(
        console, [first, "count", "energy before", "shift", "± std. error", "energy after", "eff. samples"], rows
    )


def _class_rows(shifts: Shifts) -> list[list[str]]:
    order = range(shifts.n_classes) if shifts.counts is None else np.argsort(-shifts.counts, kind="stable").tolist()
    return [
        [
            shifts.names_of([k])[0],
            _number(shifts.counts, k, ",.0f"),
            _number(shifts.energies, k),
            f"{shifts.values[k]:+.3f}",
            _number(shifts.standard_errors, k),
            _number(shifts.aligned_energies, k),
            _number(shifts.effective_samples, k, ",.1f"),
        ]
        for k in order
    ]


def _cluster_rows(shifts: Shifts) -> list[list[str]]:
    """Return a row per cluster, largest counts first: means over its classes, and the minimum of effective samples."""
    members = [np.flatnonzero(shifts.clusters.indices == c) for c in range(shifts.clusters.n_clusters)]
    if shifts.counts is not None:
        members.sort(key=lambda classes: -float(np.mean(shifts.counts[classes])))  # type: ignore[index]
    rows = []
    for classes in members:
        anchor = ", anchor" if shifts.clusters.indices[classes[0]] == shifts.clusters.anchor else ""
        low_high = "" if shifts.counts is None else _span(shifts.counts[classes])
        rows.append(
            [
                f"cluster of {len(classes):,}{anchor}",
                low_high,
                _mean(shifts.energies, classes),
                _mean(shifts.values, classes, "+.3f"),
                _mean(shifts.standard_errors, classes),
                _mean(shifts.aligned_energies, classes),
                "" if shifts.effective_samples is None else f"{shifts.effective_samples[classes].min():,.1f}",
            ]
        )
    return rows


def print_scores(console: Console, before: ClassScores, after: ClassScores, shifts: Shifts) -> None:
    """Print the accuracies of the raw and the aligned model on the evidence itself."""
    rows = []
    for name, scores in (("raw", before), ("aligned", after)):
        row = [name, _percent(scores.accuracy), _percent(scores.balanced_accuracy)]
        if shifts.counts is not None:
            row += [_percent(value) for value in scores.groups(shifts.counts).values()]
        rows.append(row)
    columns = ["on these samples, %", "accuracy", "balanced"]
    if shifts.counts is not None:
        columns += ["many", "medium", "few"]
    print_table(console, columns, rows)
    console.print(_on_these_samples(shifts))


def _on_these_samples(shifts: Shifts) -> str:
    if shifts.evidence_kind == "training":
        return "Scores on training data are too high. If the model never saw these samples, give --evidence held-out."
    return "The shifts were fitted on these samples: report scores on other data."


def print_selection(console: Console, selection: Selection, scoring: str) -> None:
    """Print every candidate of `auto`, and the reason for the choice."""
    rows = [
        [
            "→" if i == selection.chosen else "",
            candidate.estimator,
            candidate.sharing,
            f"{candidate.strength:.2f}",
            show_score(scoring, candidate.score),
            "" if candidate.largest_error is None else f"{candidate.largest_error:.2f}",
            candidate.problem or "",
        ]
        for i, candidate in enumerate(selection.candidates)
    ]
    columns = ["", "estimator", "sharing", "strength", "cross-fitted", "largest error", "problem"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    print_table(console, columns, rows, title="Candidates")
    console.print(Text(f"Chosen: {selection.reason}"))


def _number(values: Any, index: int, form: str = ".3f") -> str:
    return "" if values is None or not math.isfinite(values[index]) else format(float(values[index]), form)


def _mean(values: Any, classes: Any, form: str = ".3f") -> str:
    return "" if values is None else _number([float(np.mean(values[classes]))], 0, form)


def _span(counts: Any) -> str:
    low, high = float(counts.min()), float(counts.max())
    return f"{low:,.0f}" if low == high else f"{low:,.0f}-{high:,.0f}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"
