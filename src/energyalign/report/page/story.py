"""What was run, what came out and how to run it again: the sections below the live part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.page.document import Section
from energyalign.report.page.markup import commands_html, list_html, note_html, picture_html, table_html
from energyalign.report.page.pictures import Pictures
from energyalign.report.tables.formats.parts import as_text
from energyalign.report.tables.model import PaperTable
from energyalign.report.tables.own import incremental_table, longtail_table, matrix_table, steps_table
from energyalign.report.trainings import Training

_MANY_TRAININGS = 2


def results_section(trainings: Sequence[Training]) -> Section:
    """The tables of each cell."""
    html = ""
    for cell in dict.fromkeys(training.cell for training in trainings):
        of_cell = [training for training in trainings if training.cell == cell]
        html += _tables(cell, of_cell)
    html += note_html(
        "Accuracy on the test images in per cent, mean ± standard deviation over seeds. The difference to the paper's "
        "number stands only where network, schedule and protocol are the paper's."
    )
    return Section("Results", html)


def _tables(cell: str, trainings: Sequence[Training]) -> str:
    runs = [run for training in trainings for run in training.runs]
    # What is corrected stands below what it was.
    rows = sorted((row for run in runs for row in run.rows), key=lambda row: row.corrector != "raw")
    try:
        if not runs[0].in_steps:
            html = _table(longtail_table(rows), cell)
            if len(trainings) >= _MANY_TRAININGS:
                html += _table(matrix_table(rows), f"{cell}: every training under every corrector")
            return html
        return _table(steps_table(rows), f"{cell}: accuracy on all classes seen, after each step") + (
            _table(incremental_table(rows), f"{cell}: all steps together, and after the last")
        )
    except EnergyAlignError:  # rows of other settings share a name: a table for each setting
        if len(trainings) == 1:
            raise
        return "".join(_tables(f"{cell}, {training.label}", [training]) for training in trainings)


def _table(table: PaperTable, caption: str) -> str:
    return table_html(*as_text(table), caption)


def figures_section(pictures: Pictures) -> Section:
    """The pictures, and what is not among them."""
    html = "".join(picture_html(svg, caption) for svg, caption in pictures.drawn)
    left_out = f"<details><summary>Not drawn</summary>{list_html(pictures.left_out)}</details>\n"
    return Section("Figures", f'<div class="figures">{html}</div>\n{left_out if pictures.left_out else ""}')


def origin_section(trainings: Sequence[Training], seen_from: Path) -> Section:
    """What was run, and how to run it again."""
    lines = [_origin(training, seen_from) for training in trainings]
    columns = ["run", "network", "epochs", "seeds", "data manifest", "in the folder"]
    html = table_html(columns, lines)
    commands = dict.fromkeys(command for training in trainings for run in training.runs for command in run.commands)
    if commands:
        html += note_html("To run it again (in another --out, or it finds that all is done):")
        html += commands_html(list(commands))
    unrecorded = sum(not run.commands for training in trainings for run in training.runs)
    if unrecorded:
        html += note_html(
            f"No command is on record for {unrecorded} of these runs, as for those that are made from Python: the "
            "config.json in their folder is all that LongTailConfig.from_json or IncrementalConfig.from_json needs."
        )
    versions = {str(row.versions): row.versions for t in trainings for run in t.runs for row in run.rows}
    html += note_html(
        "Versions: "
        + "; ".join(", ".join(f"{name} {number}" for name, number in known.items()) for known in versions.values())
        + "."
    )
    return Section("What was run, and how to run it again", html)


def _origin(training: Training, seen_from: Path) -> list[str]:
    first = training.runs[0]
    folders = sorted({_place(run.path.parent, seen_from) for run in training.runs})
    return [
        f"{training.cell}, {training.label}",
        first.config.backbone,
        str(first.config.epochs),
        ", ".join(str(run.config.seed) for run in training.runs),
        _manifest(first),
        ", ".join(folders),
    ]


def _manifest(run: StoredRun) -> str:
    try:
        return run.manifest.short_hash
    except EnergyAlignError:  # the numbers are none the worse for it
        return "cannot be read"


def concerns_section(trainings: Sequence[Training]) -> Section | None:
    """What the corrections themselves said against them."""
    told = dict.fromkeys(
        f"{training.cell}, {training.label}, seed {row.seed}, {row.corrector}{_step(row)}: {concern}"
        for training in trainings
        for run in training.runs
        for row in run.rows
        for concern in row.concerns
    )
    return Section("Warnings", list_html(list(told))) if told else None


def _step(row: Row) -> str:
    return f" after step {row.step}" if row.in_steps else ""


def unfinished_section(runs: Sequence[tuple[StoredRun, str]], seen_from: Path) -> Section | None:
    """Runs that have not been measured to their end, and how far they are."""
    if not runs:
        return None
    lines = [[_place(run.path, seen_from), far] for run, far in runs]
    return Section("Still running, or stopped", table_html(["run", "how far"], lines))


def _place(folder: Path, seen_from: Path) -> str:
    """Not from the root: page and runs may move together."""
    return os.path.relpath(folder, seen_from)
