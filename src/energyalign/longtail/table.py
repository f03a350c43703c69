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
from energyalign.longtail.paper import PAPER
from energyalign.longtail.presets import PRESETS

COLUMNS = ("overall", "many", "medium", "few")


def table_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Column names and lines: a line for each method and kind of evidence, in the order in which they came.

    Ours is mean and standard deviation over seeds, in per cent. The difference is ours minus the paper's, for its own
    row and where network, schedule and cut are the paper's.
    """
    one_training = len({(row["learner"], row["config"]["head"]) for row in rows}) == 1
    one_plan = len({str(row["evidence"]) for row in rows if row["evidence"]}) <= 1
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        label = row["corrector"] if one_training else method_of(row)
        if row["evidence"] and not one_plan:
            label += f", {row['evidence']['policy']} x {row['evidence']['per_class']}"
        _refuse_other_settings(label, row, groups.get(label))
        groups.setdefault(label, {}).setdefault(row["seed"], row)
    lines = []
    for label, by_seed in groups.items():
        same = list(by_seed.values())
        paper = PAPER.get(same[0]["cell"], {}).get(method_of(same[0]))
        ours = [mean_and_deviation([row[column] for row in same]) for column in COLUMNS]
        theirs, difference = "", ""
        if paper is not None:
            theirs = f"{paper.overall:.1f}"
            # The paper quotes its other rows from papers with other networks and cuts.
            equal = method_of(same[0]) == "ea" and all(map(as_in_the_paper, same))
            difference = f"{_mean(same) - paper.overall:+.1f}" if equal else ""
        lines.append([label, *ours, str(len(same)), theirs, difference])
    return ["accuracy, %", *COLUMNS, "seeds", "paper", "difference"], lines


def matrix_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Overall accuracy of every training (lines) under every corrector (columns); a dash where there is no row.

    A corrector that was given several kinds of evidence stands there with the first of them.
    """
    correctors = list(dict.fromkeys(row["corrector"] for row in rows))
    cells: dict[str, dict[str, dict[int, Row]]] = {}
    for row in rows:
        cell = cells.setdefault(_training_of(row), {}).setdefault(row["corrector"], {})
        _refuse_other_settings(_training_of(row), row, cell)
        cell.setdefault(row["seed"], row)
    lines = [
        [training, *(_mean_cell(of_training.get(name, {})) for name in correctors)]
        for training, of_training in cells.items()
    ]
    return ["overall, %", *correctors], lines


def method_of(row: Row) -> str:
    """The paper's name of the row."""
    return name_of(row["learner"], row["config"]["head"], row["corrector"])


def as_in_the_paper(row: Row) -> bool:
    """Whether network, schedule and cut are those of the paper's cell."""
    preset, method = PRESETS.get(row["cell"]), METHODS.get(method_of(row))
    if preset is None or method is None:
        return False
    cell = replace(preset, head=method.head or preset.head)
    expected = LongTailConfig.from_preset(cell, LEARNERS[method.learner], seed=row["seed"])
    return bool(expected.to_json() == row["config"])


def _training_of(row: Row) -> str:
    learner, head = row["learner"], row["config"]["head"]
    return learner if head == head_of(learner) else f"{learner} ({head})"


def _refuse_other_settings(label: str, row: Row, known: Mapping[int, Row] | None) -> None:
    """Numbers of other epochs or networks must neither be averaged nor hidden."""
    if known and settings_of(next(iter(known.values()))) != settings_of(row):
        raise EnergyAlignError(f"the rows of {label} are of different settings: make a table of each.")


def _mean_cell(by_seed: Mapping[int, Row]) -> str:
    return mean_and_deviation([row["overall"] for row in by_seed.values()])


def _mean(rows: Sequence[Row]) -> float:
    return 100.0 * float(statistics.mean(row["overall"] for row in rows))
