"""Rows of runs in steps as curves: what each is called, what it comes to, and where the paper has it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.methods import METHODS, find_method, head_of
from energyalign.experiments.incremental.metrics import average, forgetting
from energyalign.experiments.incremental.paper import PAPER, PaperCurve
from energyalign.experiments.incremental.presets import PRESETS

SUMMARY = ("average", "with step 1", "last step", "old", "new", "forgetting", "top-5 average")


class Curve(NamedTuple):
    """The rows of one run under one corrector, step by step; those of a run that is not finished may be fewer."""

    rows: list[Row]

    @property
    def last(self) -> Row:
        """After the last step that was measured."""
        return self.rows[-1]

    def average(self, column: str = "overall", *, with_first: bool = False) -> float:
        """Over the steps; without the first, as the paper has it, unless asked for."""
        values = [row.accuracy(column) for row in self.rows if with_first or row.step > 1]
        return average([value for value in values if value is not None], with_first=True)

    @property
    def forgetting(self) -> float:
        """How much of the best accuracy on the classes of each step is gone at the end; NaN if a step is missing."""
        if [row.step for row in self.rows] != list(range(1, len(self.rows) + 1)):
            return math.nan
        return forgetting([row.groups for row in self.rows])

    @property
    def is_whole(self) -> bool:
        """Whether there is a row of every step."""
        return len(self.rows) == self.last.n_steps


def curves_of(rows: Sequence[Row]) -> dict[str, list[Curve]]:
    """The curves of each line of a table, one for each seed; lines in the order in which they came."""
    found: dict[tuple[str, str | None, str, int], dict[int, Row]] = {}
    one_training = len({_training_of(row) for row in rows}) == 1
    settings: dict[str, str] = {}
    for row in rows:
        label = row.corrector if one_training else label_of(row)
        if settings.setdefault(f"{label}, {row.memory}", row.config.but_seed) != row.config.but_seed:
            raise EnergyAlignError(f"the rows of {label} are of different settings: make a table of each.")
        # By step: a row that is given twice counts once.
        found.setdefault((label, row.memory, str(row.evidence or ""), row.seed), {})[row.step] = row
    lines: dict[str, list[Curve]] = {}
    keys = list(found)
    for (label, memory, evidence, _seed), by_step in found.items():
        name = label
        if len({key[1] for key in keys if key[0] == label}) > 1:
            name += f", {memory}"
        if len({key[2] for key in keys if key[:2] == (label, memory)}) > 1 and evidence:
            name += f", {evidence}"
        lines.setdefault(name, []).append(Curve([by_step[step] for step in sorted(by_step)]))
    return lines


def curves_by_seed(rows: Sequence[Row]) -> list[Curve]:
    """The curve of each seed; rows are of one line of a table, and one that is given twice counts once."""
    found: dict[int, dict[int, Row]] = {}
    for row in rows:
        found.setdefault(row.seed, {})[row.step] = row
    return [Curve([by_step[step] for step in sorted(by_step)]) for by_step in found.values()]


def summary_of(curves: Sequence[Curve]) -> list[list[float | None]]:
    """For each column of `SUMMARY` the numbers of each seed, from 0 to 1."""
    return [
        [curve.average() for curve in curves],
        [curve.average(with_first=True) for curve in curves],
        *([curve.last.accuracy(column) for curve in curves] for column in ("overall", "old", "new")),
        [curve.forgetting for curve in curves],
        [curve.average("top5") for curve in curves],
    ]


def at_step(curves: Sequence[Curve], step: int, column: str = "overall") -> list[float | None]:
    """The numbers of those curves that have come to a step."""
    return [row.accuracy(column) for curve in curves for row in curve.rows if row.step == step]


def paper_of(curves: Sequence[Curve]) -> PaperCurve:
    """The paper's numbers for a line; all missing if it has no such line."""
    first = curves[0].rows[0]
    return PAPER.get(first.cell, {}).get(label_of(first), PaperCurve())


def difference_of(curves: Sequence[Curve]) -> float | None:
    """Our average minus the paper's, for a line of its own method and in its own setting; None for others."""
    theirs = paper_of(curves).average1
    # The paper quotes its other rows from papers with other networks, orders and subsets.
    comparable = all(curve.is_whole and as_in_the_paper(curve.last) for curve in curves)
    if theirs is None or label_of(curves[0].rows[0]) != "ea" or not comparable:
        return None
    return 100 * statistics.mean(curve.average() for curve in curves) - theirs


def label_of(row: Row) -> str:
    """The method, or what it is composed of if no method is."""
    selection = selection_of(row)
    of_row = (row.learner, row.config.head, selection, row.corrector)
    for name, method in METHODS.items():
        composed = (method.learner, method.head or head_of(method.learner), method.memory, method.corrector)
        if composed == of_row and (row.fed_back, row.config.held_out) == _act_on_training(name):
            return name
    return f"{row.learner} ({', '.join([row.config.head, selection, *_feedback(row)])}) + {row.corrector}"


def training_of(row: Row) -> str:
    """What was trained, whatever is behind it."""
    return f"{row.learner} ({', '.join([row.config.head, str(row.memory), *_feedback(row)])})"


def selection_of(row: Row) -> str:
    """How its exemplars were chosen."""
    return str(row.memory).partition(":")[0]


def as_in_the_paper(row: Row) -> bool:
    """Whether network, schedule and protocol are those of the paper's cell."""
    preset, name = PRESETS.get(row.cell), label_of(row)
    return preset is not None and name in METHODS and _config(name, preset.name, row.seed) == row.config.values


def _feedback(row: Row) -> list[str]:
    if row.fed_back != "raw":
        return [f"fed back: {row.fed_back}"]
    return ["held out"] if row.config.held_out else []  # trained on fewer images than its namesake that holds out none


def _training_of(row: Row) -> tuple[Any, ...]:
    """What trainings of one cell differ in."""
    return row.learner, row.memory, row.fed_back, row.config.head, row.config.held_out


def _act_on_training(method: str) -> tuple[str, float]:
    """What is fed back in the rows of a method, and which part of the exemplars they hold out."""
    config = _config(method, next(iter(PRESETS)), 0)
    return config["fed_back"], config["held_out"]


def _config(method: str, cell: str, seed: int) -> dict[str, Any]:
    """The settings of a method in a cell, nothing changed."""
    return config_of(find_method(method), PRESETS[cell], seed=seed).to_json()
