"""Rows of several seeds as one table, beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.cells import mean_and_deviation
from energyalign.experiment.rows import Row, settings_of
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.learners import LEARNERS
from energyalign.longtail.methods import METHODS, head_of, name_of
from energyalign.longtail.paper import PAPER, PaperNumbers
from energyalign.longtail.presets import PRESETS

COLUMNS = ("overall", "many", "medium", "few")


def table_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Column names and lines: a line for each method and kind of evidence, in the order in which they came.

    Ours is mean and standard deviation over seeds, in per cent. The difference is ours minus the paper's, for its own
    row and where network, schedule and cut are the paper's.
    """
    lines = []
    for label, same in lines_of(rows).items():
        paper = paper_of(same)
        ours = [mean_and_deviation([row[column] for row in same]) for column in COLUMNS]
        theirs = "" if paper is None else f"{paper.overall:.1f}"
        difference = difference_of(same)
        lines.append([label, *ours, str(len(same)), theirs, "" if difference is None else f"{difference:+.1f}"])
    return ["accuracy, %", *COLUMNS, "seeds", "paper", "difference"], lines


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each line of `table_of`, one for each seed, by what the line is called."""
    one_training = len({(row["learner"], row["config"]["head"]) for row in rows}) == 1
    one_plan = len({str(row["evidence"]) for row in rows if row["evidence"]}) <= 1
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        label = row["corrector"] if one_training else method_of(row)
        if row["evidence"] and not one_plan:
            label += f", {row['evidence']['policy']} x {row['evidence']['per_class']}"
        _refuse_other_settings(label, row, groups.get(label))
        groups.setdefault(label, {}).setdefault(row["seed"], row)
    return {label: list(by_seed.values()) for label, by_seed in groups.items()}


def paper_of(rows: Sequence[Row]) -> PaperNumbers | None:
    """The paper's numbers for the rows of a line, if it has any."""
    return PAPER.get(rows[0]["cell"], {}).get(method_of(rows[0]))


def difference_of(rows: Sequence[Row]) -> float | None:
    """Ours minus the paper's, for the rows of a line of its own method and in its own setting; None for others."""
    paper = paper_of(rows)
    # The paper quotes its other rows from papers with other networks and cuts.
    if paper is None or method_of(rows[0]) != "ea" or not all(map(as_in_the_paper, rows)):
        return None
    return _mean(rows) - paper.overall


def matrix_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Overall accuracy of every training (lines) under every corrector (columns); a dash where there is no row.

    A corrector that was given several kinds of evidence stands there with the first of them.
    """
    correctors = list(dict.fromkeys(row["corrector"] for row in rows))
    cells: dict[str, dict[str, dict[int, Row]]] = {}
    for row in rows:
        cell = cells.setdefault(training_of(row), {}).setdefault(row["corrector"], {})
        _refuse_other_settings(training_of(row), row, cell)
        cell.setdefault(row["seed"], row)
    lines = [
        [training, *(_mean_cell(of_training.get(name, {})) for name in correctors)]
        for training, of_training in cells.items()
    ]
    return ["overall, %", *correctors], lines


def method_of(row: Row) -> str:
    """The paper's name of the row."""
    return name_of(row["learner"], row["config"]["head"], row["corrector"])


def training_of(row: Row) -> str:
    """What was trained, whatever is behind it: the learner, with its head if that is not its own."""
    learner, head = row["learner"], row["config"]["head"]
    return str(learner) if head == head_of(learner) else f"{learner} ({head})"


def as_in_the_paper(row: Row) -> bool:
    """Whether network, schedule and cut are those of the paper's cell."""
    preset, method = PRESETS.get(row["cell"]), METHODS.get(method_of(row))
    if preset is None or method is None:
        return False
    cell = replace(preset, head=method.head or preset.head)
    expected = LongTailConfig.from_preset(cell, LEARNERS[method.learner], seed=row["seed"])
    return bool(expected.to_json() == row["config"])


def _refuse_other_settings(label: str, row: Row, known: Mapping[int, Row] | None) -> None:
    """Numbers of other epochs or networks must neither be averaged nor hidden."""
    if known and settings_of(next(iter(known.values()))) != settings_of(row):
        raise EnergyAlignError(f"the rows of {label} are of different settings: make a table of each.")


def _mean_cell(by_seed: Mapping[int, Row]) -> str:
    return mean_and_deviation([row["overall"] for row in by_seed.values()])


def _mean(rows: Sequence[Row]) -> float:
    return 100.0 * float(statistics.mean(row["overall"] for row in rows))
