"""What was run, what came out and how to run it again: the sections below the live part."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.engine.row import HEADLINE, Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.comparison import comparison_table, pairs_within
from energyalign.report.page.document import Section, commands_html, list_html, note_html, picture_html, table_html
from energyalign.report.tables.model import Cell, Line, PaperTable, as_text
from energyalign.report.tables.own import describe_row, metrics_table, tables_of
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training, by_setting

_CAPTIONS = {
    "longtail": "",
    "matrix": ": every training under every corrector",
    "steps": ": accuracy on all classes seen, after each step",
    "incremental": ": all steps together, and after the last",
    "metrics": ": accuracy and calibration",
}
_MAX_SENTENCES = 3
_NOTHING = 0.05
"""Per cent points that would be printed as 0.0."""
_BY_TRAINING = (
    "energies", "confusion", "groups", "clusters", "shifts", "effective-samples", "strength", "reliability",
)  # fmt: skip
"""Figures with a panel for each training."""
_MAX_TRAININGS = 4
_COMPARED = ["", "A", "B", "B - A", "s.e.", "95 % interval", "right alone: A", "right alone: B", "p"]
_MIN_P = 0.001
"""Smaller p-values are not told apart."""


def results_section(trainings: Sequence[Training]) -> Section:
    """The tables of each cell."""
    html = ""
    for cell in dict.fromkeys(training.cell for training in trainings):
        of_cell = [training for training in trainings if training.cell == cell]
        html += _tables(cell, of_cell)
    html += note_html(
        "Accuracy on the test images in per cent, all classes counting the same, mean ± standard deviation over seeds. "
        "The difference to the paper's number stands only where network, schedule and protocol are the paper's."
    )
    return Section("Results", html)


def _tables(cell: str, trainings: Sequence[Training]) -> str:
    runs = [run for training in trainings for run in training.runs]
    # What is corrected stands below what it was.
    rows = sorted((row for run in runs for row in run.rows), key=lambda row: row.corrector != "raw")
    try:
        tables = [*tables_of(rows, matrix=len(trainings) > 1), metrics_table(rows)]
        return "".join(table_html(*as_text(table), cell + _CAPTIONS[table.name]) for table in tables)
    except EnergyAlignError:  # rows of other settings share a name: a table for each setting
        if len(trainings) == 1:
            raise
        return "".join(_tables(f"{cell}, {training.label}", [training]) for training in trainings)


def compared_section(trainings: Sequence[Training]) -> Section | None:
    """Energy aligning against the network as trained, with what chance may have done."""
    html = ""
    notes: tuple[str, ...] = ()
    for training in trainings:
        try:
            (pair,) = pairs_within(training.runs, (AS_TRAINED, ALIGNED))
            table = comparison_table([pair])
        except EnergyAlignError:  # nothing was measured under both, or its predictions are not there
            continue
        lines = [[line.method.removeprefix(f"{pair.name}, "), *_compared(line, table)] for line in table.lines]
        html += table_html(_COMPARED, lines, f"{training.cell}, {training.label}: A is {AS_TRAINED}, B is {ALIGNED}")
        notes = table.notes
    return Section("Compared", html + "".join(map(note_html, notes))) if html else None


def _compared(line: Line, table: PaperTable) -> list[str]:
    """The numbers of a line of `comparison_table`, the interval in one cell."""
    a, b, gain, error, low, high, *tested = (
        line.number(cell, column) or "-" for cell, column in zip(line.cells, table.columns, strict=True)
    )
    p = line.cells[-1].mean
    if p is not None and p < _MIN_P:
        tested[-1] = f"< {_MIN_P}"
    return [a, b, gain, error, f"{low} to {high}", *tested]


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
    rows = [row for training in trainings for run in training.runs for row in run.rows]
    used = {str(one): one for row in rows for one in row.environments or (row.versions,)}
    html += note_html(
        "Versions: "
        + "; ".join(", ".join(f"{name} {number}" for name, number in known.items()) for known in used.values())
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
        f"{training.cell}, {describe_row(row, training.label)}: {concern}"
        for training in trainings
        for run in training.runs
        for row in run.rows
        for concern in row.concerns
    )
    return Section("Warnings", list_html(list(told))) if told else None


def unfinished_section(runs: Sequence[tuple[StoredRun, str]], seen_from: Path) -> Section | None:
    """Runs that have not been measured to their end, and how far they are."""
    if not runs:
        return None
    lines = [[_place(run.path, seen_from), far] for run, far in runs]
    return Section("Still running, or stopped", table_html(["run", "how far"], lines))


def _place(folder: Path, seen_from: Path) -> str:
    """Not from the root: page and runs may move together."""
    return os.path.relpath(folder, seen_from)


def verdict_of(trainings: Sequence[Training]) -> list[str]:
    """On each training that was measured both raw and under energy aligning, or on all of a cell together."""
    sentences = []
    for cell in dict.fromkeys(training.cell for training in trainings):
        of_cell = [training for training in trainings if training.cell == cell]
        both = [training for training in of_cell if _pairs(training)]
        if not both:
            sentences.append(f"{cell}: nothing was measured both raw and under energy aligning ({ALIGNED}) yet.")
        elif len(both) <= _MAX_SENTENCES:
            sentences += [_on_one(training) for training in both]
        else:
            sentences.append(_on_all(cell, both))
    return sentences


def _pairs(training: Training) -> list[tuple[Row, Row]]:
    """Raw and aligned rows of the same seed."""
    aligned = {row.seed: row for row in training.rows_of(ALIGNED)}
    return [(row, aligned[row.seed]) for row in training.rows_of(AS_TRAINED) if row.seed in aligned]


def _gain(training: Training) -> float:
    """In per cent points, mean over seeds."""
    return 100 * float(statistics.mean(aligned.balanced - raw.balanced for raw, aligned in _pairs(training)))


def _on_one(training: Training) -> str:
    pairs = _pairs(training)
    raw, aligned = ([pair[i] for pair in pairs] for i in (0, 1))
    gain = _gain(training)
    what = "raises" if gain > _NOTHING else "lowers" if gain < -_NOTHING else "does not change"
    noted = [count_of(len(pairs), "seed")]
    weak = "old" if training.in_steps else "few"
    if all(row.accuracy(weak) is not None for row in raw):
        noted.append(f"{weak} classes {_from_to(raw, aligned, weak)}")
    return (
        f"{training.cell}, {training.label}{_when(training)}: energy aligning as in the paper ({ALIGNED}) {what} the "
        f"test accuracy, {_from_to(raw, aligned, HEADLINE)} % ({'; '.join(noted)}). {_who_is_best(training)}"
    )


def _when(training: Training) -> str:
    return f", after step {training.step} of {training.runs[0].n_steps}" if training.in_steps else ""


def _from_to(before: Sequence[Row], after: Sequence[Row], column: str) -> str:
    return " to ".join(str(Cell.over_seeds([row.accuracy(column) for row in rows])) for rows in (before, after))


def _who_is_best(training: Training) -> str:
    means = _means(training)
    best = max(means, key=lambda name: means[name])
    if means[best] <= means[ALIGNED]:
        return "Nothing else that was measured behind this training is ahead of it."
    name = "the raw network" if best == AS_TRAINED else best
    return f"Best behind this training is {name} with {Cell.over_seeds([means[best]])} %."


def _means(training: Training) -> dict[str, float]:
    """Of every corrector that was measured with all the seeds that are compared, over these seeds."""
    seeds = [raw.seed for raw, _ in _pairs(training)]
    means = {}
    for name in training.correctors:
        by_seed = {row.seed: row.balanced for row in training.rows_of(name)}
        if by_seed.keys() >= set(seeds):
            means[name] = float(statistics.mean(by_seed[seed] for seed in seeds))
    return means


def _on_all(cell: str, trainings: Sequence[Training]) -> str:
    gains = [_gain(training) for training in trainings]
    better, worse = sum(gain > _NOTHING for gain in gains), sum(gain < -_NOTHING for gain in gains)
    ranked = sorted(
        (
            (mean, f"{name} behind {training.label}")
            for training in trainings
            for name, mean in _means(training).items()
        ),
        reverse=True,
    )
    return (
        f"{cell}: energy aligning as in the paper ({ALIGNED}) raises the test accuracy of {better} of "
        f"{len(trainings)} trainings and lowers that of {worse}, by {statistics.mean(gains):+.1f} points in the mean. "
        f"Best of all is {ranked[0][1]} with {100 * ranked[0][0]:.1f} %."
    )


class Pictures(NamedTuple):
    """SVG elements with their captions, and a sentence on each figure that could not be drawn."""

    drawn: list[tuple[str, str]]
    left_out: list[str]


def draw_pictures(trainings: Sequence[Training]) -> Pictures:
    """Cell by cell; none without matplotlib."""
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
                shown, note = few, f" The first {_MAX_TRAININGS} trainings; energyalign figure {name} draws all."
            try:
                drawn.append((page_svg(entry.draw(shown)), f"{cell}: {entry.description}.{note}"))
            except EnergyAlignError as error:
                left_out.append(f"{cell}: {error}")
    return Pictures(drawn, left_out)


def _first_trainings(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Of trainings that were measured under energy aligning, so many as can be looked at; all runs if they are few."""
    groups = by_setting(runs)
    if len(groups) <= _MAX_TRAININGS:
        return list(runs)
    groups.sort(key=lambda seeds: seeds[0].row_of(ALIGNED) is None)
    return [run for seeds in groups[:_MAX_TRAININGS] for run in seeds]
