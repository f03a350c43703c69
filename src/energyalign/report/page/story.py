"""The sections of the page of runs: tables, comparison, figures, warnings, and how to reproduce them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.comparison import comparison_table, pairs_within
from energyalign.report.page.document import Section, commands_html, list_html, note_html, picture_html, table_html
from energyalign.report.tables.model import Line, PaperTable, as_text
from energyalign.report.tables.own import describe_row, metrics_table, tables_of
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training, by_setting

_CAPTIONS = {
    "longtail": "balanced accuracy of all classes, and by number of training images, %",
    "matrix": "balanced accuracy of every training with every corrector, %",
    "steps": "balanced accuracy on all classes seen, after each step, %",
    "incremental": "balanced accuracy over all steps, and after the last, %",
    "metrics": "balanced accuracy, macro-F1 and calibration",
}
_BY_TRAINING = (
    "energies", "confusion", "groups", "clusters", "shifts", "effective-samples", "strength", "reliability",
)  # fmt: skip
"""Figures with a panel for each training."""
_MAX_TRAININGS = 4
"""Maximum number of trainings in one of these figures on the page."""
_COMPARED = ["", AS_TRAINED, ALIGNED, "gain", "s.e.", "95 % interval", "only raw right", "only ea right", "p"]
_ABOUT_COMPARED = (
    "Balanced accuracy in %. Gain of one seed: standard error and interval from a paired bootstrap over test images "
    "within classes. Only raw right, only ea right: test images that one network alone classifies "
    "correctly; p: exact two-sided McNemar test."
)
_ABOUT_SEEDS = (
    " All seeds: for these networks on other test images. Over seeds: paired t interval, for other trainings on these "
    "test images."
)
_MIN_P = 0.001
"""Smaller p-values are shown as < 0.001."""


def results_section(trainings: Sequence[Training]) -> Section:
    """Return the tables of each cell."""
    html = ""
    for cell in dict.fromkeys(training.cell for training in trainings):
        html += _tables(cell, [training for training in trainings if training.cell == cell])
    html += note_html(
        "Mean ± standard deviation over seeds, on the test images. Many, medium, few: classes with more than 100, 20 "
        "to 100, and fewer than 20 training images. A corrector that is followed by, say, two x 50 read 50 training "
        "images per class, drawn with the augmentation policy two. The difference to the paper is given only where "
        "network, schedule and protocol are the paper's."
    )
    return Section("Results", html)


def _tables(cell: str, trainings: Sequence[Training]) -> str:
    runs = [run for training in trainings for run in training.runs]
    rows = [row for run in runs for row in run.rows]
    try:
        tables = [*tables_of(rows, matrix=len(trainings) > 1), metrics_table(rows)]
    except EnergyAlignError:  # rows with different settings share a name: make a table for each setting
        if len(trainings) == 1:
            raise
        return "".join(_tables(f"{cell}, {training.label}", [training]) for training in trainings)
    html = ""
    for table in tables:
        columns, lines = as_text(table)
        titles = ["balanced accuracy" if column == HEADLINE else column for column in columns]
        html += table_html(titles, lines, f"{cell}: {_CAPTIONS[table.name]}")
    return html


def compare_with_raw(trainings: Sequence[Training]) -> dict[Training, PaperTable]:
    """Return the comparison of energy aligning with the raw network, of each training that allows it."""
    tables = {}
    for training in trainings:
        try:
            tables[training] = comparison_table(pairs_within(training.runs, (AS_TRAINED, ALIGNED)))
        except EnergyAlignError:  # no seed has both rows, or stored predictions are missing
            continue
    return tables


def compared_section(comparisons: Mapping[Training, PaperTable]) -> Section | None:
    """Return the comparisons of `compare_with_raw`; None if there are none."""
    html = ""
    for training, table in comparisons.items():
        lines = [[line.method.rpartition(", ")[2], *_compared(line, table)] for line in table.lines]
        html += table_html(_COMPARED, lines, f"{training.cell}, {training.label}")
    several = any(len(table.lines) > 1 for table in comparisons.values())
    about = _ABOUT_COMPARED + (_ABOUT_SEEDS if several else "")
    return Section("Is the gain more than chance?", html + note_html(about)) if html else None


def _compared(line: Line, table: PaperTable) -> list[str]:
    """Return the numbers of a line of `comparison_table`, with the interval in one cell."""
    a, b, gain, error, low, high, *tested = (
        line.number(cell, column) or "-" for cell, column in zip(line.cells, table.columns, strict=True)
    )
    p = line.cells[-1].mean
    if p is not None and p < _MIN_P:
        tested[-1] = f"< {_MIN_P}"
    return [a, b, gain, error, f"{low} to {high}", *tested]


def figures_section(pictures: Pictures) -> Section:
    """Return the figures, and a list of figures that could not be drawn."""
    html = "".join(picture_html(svg, caption) for svg, caption in pictures.drawn)
    left_out = f"<details><summary>Not drawn</summary>{list_html(pictures.left_out)}</details>\n"
    return Section("Figures", f'<div class="figures">{html}</div>\n{left_out if pictures.left_out else ""}')


def origin_section(trainings: Sequence[Training], seen_from: Path) -> Section:
    """Return settings, commands and versions of the runs."""
    lines = [_origin(training, seen_from) for training in trainings]
    columns = ["run", "network", "epochs", "seeds", "data manifest", "folder"]
    html = table_html(columns, lines)
    runs = [run for training in trainings for run in training.runs]
    commands = dict.fromkeys(command for run in runs for command in run.commands)
    if commands:
        html += note_html("Commands; use another --out, because a finished run is not repeated:")
        html += commands_html(list(commands))
    unrecorded = sum(not run.commands for run in runs)
    if unrecorded:
        html += note_html(
            f"No command is on record for {unrecorded} of these runs, as they were made from Python: load the "
            "config.json in their folder with LongTailConfig.from_json or IncrementalConfig.from_json."
        )
    used = {str(one): one for run in runs for row in run.rows for one in row.environments or (row.versions,)}
    versions = (", ".join(f"{name} {number}" for name, number in known.items()) for known in used.values())
    html += note_html(f"Versions: {'; '.join(versions)}.")
    return Section("How to reproduce it", html)


def _origin(training: Training, seen_from: Path) -> list[str]:
    first = training.runs[0]
    try:
        manifest = first.manifest.short_hash
    except EnergyAlignError:
        manifest = "cannot be read"
    return [
        f"{training.cell}, {training.label}",
        first.config.backbone,
        str(first.config.epochs),
        ", ".join(str(run.config.seed) for run in training.runs),
        manifest,
        ", ".join(sorted({os.path.relpath(run.path.parent, seen_from) for run in training.runs})),
    ]


def concerns_section(trainings: Sequence[Training]) -> Section | None:
    """Return the concerns of all rows, each once with the rows that have it; None if there are none."""
    concerns: dict[str, list[str]] = {}
    for training in trainings:
        for row in (row for run in training.runs for row in run.rows):
            name = f"{training.cell}, {describe_row(row, training.label)}"
            for concern in row.concerns:
                concerns.setdefault(concern, []).append(name if len(trainings) > 1 else name.partition(" + ")[2])
    items = [f"{concern} [{some_of(rows)}]" for concern, rows in concerns.items()]
    return Section("Warnings", list_html(items)) if items else None


def unfinished_section(runs: Sequence[tuple[StoredRun, str]], seen_from: Path) -> Section | None:
    """Return the runs that are not finished, each with its progress; None if there are none."""
    if not runs:
        return None
    lines = [[os.path.relpath(run.path, seen_from), progress] for run, progress in runs]
    return Section("Unfinished runs", table_html(["run", "progress"], lines))


class Pictures(NamedTuple):
    """SVG elements with their captions, and the reasons why other figures are missing."""

    drawn: list[tuple[str, str]]
    left_out: list[str]


def draw_pictures(trainings: Sequence[Training]) -> Pictures:
    """Draw every figure of each cell that its runs allow; none without matplotlib."""
    try:
        from energyalign.report.drawing import page_svg
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        return Pictures([], ["All figures: they need matplotlib (pip install 'energyalign[report]')."])
    from energyalign.report.figures import FIGURES

    drawn, left_out = [], []
    for cell in dict.fromkeys(training.cell for training in trainings):
        runs = [run for training in trainings if training.cell == cell for run in training.runs]
        few = _first_trainings(runs)
        for name, entry in FIGURES.items():
            shown, note = runs, ""
            if name in _BY_TRAINING and len(few) < len(runs):
                shown, note = few, f" Only the first {_MAX_TRAININGS} trainings; energyalign figure {name} draws all."
            try:
                drawn.append((page_svg(entry.draw(shown)), f"{cell}: {entry.description}.{note}"))
            except EnergyAlignError as error:
                left_out.append(f"{cell}: {error}")
    return Pictures(drawn, left_out)


def _first_trainings(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs of the first trainings; trainings with a row of ea come first."""
    groups = by_setting(runs)
    if len(groups) <= _MAX_TRAININGS:
        return list(runs)
    groups.sort(key=lambda seeds: seeds[0].row_of(ALIGNED) is None)
    return [run for seeds in groups[:_MAX_TRAININGS] for run in seeds]
