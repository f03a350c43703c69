"""The page of `energyalign fit --multilabel`: what the shifts do to each independent label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from energyalign.core._io.atomic import atomic_write
from energyalign.core.arrays import Ints
from energyalign.core.before_after import BeforeAfter
from energyalign.core.errors import count_of
from energyalign.core.metrics import ClassScores
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.objectives import score_name, show_error, show_score
from energyalign.report.drawing import BLUE, GREY, page_svg
from energyalign.report.page.document import (
    Section,
    commands_html,
    document,
    list_html,
    note_html,
    picture_html,
    table_html,
)
from energyalign.report.page.sentences import describe_bias
from energyalign.report.panels import grid_lines, panels

_RATES = ("recall", "precision", "F1")
_MAX_NAMES = 60  # labels that are named in the picture
_MAX_LETTERS = 24


class _Label(NamedTuple):
    """A row of the table; rates are recall, precision and F1, NaN where the denominator is 0."""

    name: str
    samples: Ints  # without and with the label
    shift: float
    error: float
    raw: tuple[float, ...]
    aligned: tuple[float, ...]

    @property
    def frequency(self) -> float:
        return float(self.samples[1] / self.samples.sum())


def write_labels_page(
    path: str | Path, *, name: str, command: str, shifts: MultilabelShifts, scores: Sequence[BeforeAfter]
) -> None:
    """Write the page of shifts of independent labels.

    Parameters
    ----------
    path : path
    name : str
        Name of the logits.
    command : str
        Command line that writes the page.
    shifts : MultilabelShifts
    scores : sequence of BeforeAfter
        Scores of each label with the raw and with the corrected logits.
    """
    labels = [
        _Label(label, own.before.total, shift, error, _rates(own.before), _rates(own.after))
        for label, shift, error, own in zip(
            shifts.class_names, shifts.values, shifts.standard_errors, scores, strict=True
        )
    ]
    labels.sort(key=lambda label: -label.frequency)
    picture = picture_html(page_svg(_draw(labels)), "Recall and precision of each label, raw and aligned.")
    concerns = list_html(shifts.concerns) if shifts.concerns else note_html("No warnings.")
    sections = [
        Section("Label by label", picture + _table(labels)),
        Section(
            "What was fitted",
            note_html(f"Estimator {shifts.estimator}, scoring {score_name(shifts.scoring)}.") + concerns,
        ),
        Section("How to reproduce it", commands_html([command])),
    ]
    text = document(f"energyalign fit: {name}", [_result(shifts, labels)], [], sections)
    with atomic_write(path) as stream:
        stream.write(text)


def _rates(scores: ClassScores) -> tuple[float, ...]:
    found, present = int(scores.right[1]), int(scores.total[1])
    predicted = found + int(scores.total[0] - scores.right[0])
    parts = ((found, present), (found, predicted), (2 * found, present + predicted))
    return tuple(part / whole if whole else float("nan") for part, whole in parts)


def _result(shifts: MultilabelShifts, labels: Sequence[_Label]) -> tuple[str, str]:
    """Return the headline and its details."""
    # No mean precision: a label that is never predicted has none, so raw and aligned means would cover different
    # labels.
    rates = ", ".join(
        f"{_RATES[i]} {_percent(_mean(label.raw[i] for label in labels))} % → "
        f"{_percent(_mean(label.aligned[i] for label in labels))} %"
        for i in (0, 2)
    )
    details = f"On these samples, mean over {count_of(shifts.n_classes, 'label')}: {rates}."
    score = shifts.mean_score
    if score is None:
        return details, describe_bias(shifts.labels[0].evidence_kind)
    raw, chosen = (show_score(shifts.scoring, value) for value in (score.raw, score.chosen))
    headline = (
        f"{score_name(shifts.scoring).replace('_', ' ').capitalize()} {raw} → {chosen}, mean over "
        f"{count_of(score.n_labels, 'label')}, on samples that the shifts were not fitted on (standard error of the "
        f"difference at most {show_error(shifts.scoring, score.error)})."
    )
    return headline, f"{details} {describe_bias(shifts.labels[0].evidence_kind)}"


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _table(labels: Sequence[_Label]) -> str:
    rows = [
        [
            label.name,
            f"{label.samples.sum():,}",
            _percent(label.frequency),
            f"{label.shift:+.3f} ± {label.error:.3f}",
            *(f"{_percent(raw)} → {_percent(aligned)}" for raw, aligned in zip(label.raw, label.aligned, strict=True)),
        ]
        for label in labels
    ]
    columns = ["label", "samples", "frequency, %", "shift ± std. error", *(f"{rate}, %" for rate in _RATES)]
    return table_html(columns, rows, "Raw → aligned on these samples, the most frequent label first.")


def _draw(labels: Sequence[_Label]) -> Figure:
    """Draw a line for each label from its raw to its aligned rate."""
    places = np.arange(len(labels))
    with panels(
        2, what="Each label, raw and aligned", about="the most frequent first", columns=2, width=4.0,
        height=0.8 + 0.2 * min(len(labels), _MAX_NAMES), sharey=True,
    ) as (figure, axes):  # fmt: skip
        for i, panel in enumerate(axes):
            raw = np.array([100 * label.raw[i] for label in labels])
            aligned = np.array([100 * label.aligned[i] for label in labels])
            panel.hlines(places, raw, aligned, color=GREY, linewidth=0.8)
            panel.plot(raw, places, "o", color=GREY, fillstyle="none", markersize=4, label="raw")
            panel.plot(aligned, places, "o", color=BLUE, markersize=4, label="aligned")
            panel.set(xlabel=f"{_RATES[i]}, %", xlim=(-2, 102), ylim=(len(labels) - 0.4, -0.6))
            grid_lines(panel, "x")
        if len(labels) > _MAX_NAMES:
            axes[0].set_yticks([])
        else:
            axes[0].set_yticks(places, [_shorten(label.name) for label in labels])
    return figure


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_LETTERS else f"{name[: _MAX_LETTERS - 1]}…"


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.1f}"
