"""Rows of several seeds as tables, beside the paper's numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.cells import mean_and_deviation
from energyalign.experiment.rows import Row, settings_of
from energyalign.incremental.methods import METHODS, config_of, find_method, head_of
from energyalign.incremental.metrics import average, forgetting
from energyalign.incremental.paper import PAPER, PaperCurve
from energyalign.incremental.presets import PRESETS

Table = tuple[list[str], list[list[str]]]

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
        counted = [row[column] for row in self.rows if with_first or row["step"] > 1]
        return average(counted, with_first=True)

    @property
    def forgetting(self) -> float:
        """How much of the best accuracy on the classes of each step is gone at the end; NaN if a step is missing."""
        if [row["step"] for row in self.rows] != list(range(1, len(self.rows) + 1)):
            return math.nan
        return forgetting([row["groups"] for row in self.rows])

    @property
    def is_whole(self) -> bool:
        """Whether there is a row of every step."""
        return bool(len(self.rows) == self.last["n_steps"])


def curves_of(rows: Sequence[Row]) -> dict[str, list[Curve]]:
    """The curves of each line of a table, one for each seed; lines in the order in which they came."""
    found: dict[tuple[str, str, str, int], dict[int, Row]] = {}
    one_training = len({_training_of(row) for row in rows}) == 1
    settings: dict[str, str] = {}
    for row in rows:
        label = row["corrector"] if one_training else label_of(row)
        if settings.setdefault(f"{label}, {row['memory']}", settings_of(row)) != settings_of(row):
            raise EnergyAlignError(f"the rows of {label} are of different settings: make a table of each.")
        # By step: a row that is given twice counts once.
        found.setdefault((label, row["memory"], str(row["evidence"]), row["seed"]), {})[row["step"]] = row
    lines: dict[str, list[Curve]] = {}
    keys = list(found)
    for (label, memory, evidence, _seed), by_step in found.items():
        of_run = [by_step[step] for step in sorted(by_step)]
        name = label
        if len({key[1] for key in keys if key[0] == label}) > 1:
            name += f", {memory}"
        if len({key[2] for key in keys if key[:2] == (label, memory)}) > 1 and evidence != "None":
            plan = of_run[0]["evidence"]
            name += f", {plan['policy']} x {plan['per_class']}"
        lines.setdefault(name, []).append(Curve(of_run))
    return lines


def summary_table(rows: Sequence[Row]) -> Table:
    """A line for each method: averages over steps, and the state after the last one.

    Ours is mean and standard deviation over seeds, in per cent. The difference is ours minus the paper's average, for
    its own row and where network, schedule and protocol are the paper's.
    """
    lines = []
    has_paper = any(row["cell"] in PAPER for row in rows)
    for name, curves in curves_of(rows).items():
        line = [name, *map(mean_and_deviation, summary_of(curves)), str(len(curves))]
        lines.append(line + (_beside_the_paper(curves) if has_paper else []))
    return ["accuracy, %", *SUMMARY, "seeds", *(["paper", "paper, top-5", "difference"] if has_paper else [])], lines


def summary_of(curves: Sequence[Curve]) -> list[list[float | None]]:
    """The numbers behind a line of `summary_table`: for each column of `SUMMARY` those of each seed, from 0 to 1."""
    return [
        [curve.average() for curve in curves],
        [curve.average(with_first=True) for curve in curves],
        *([curve.last[column] for curve in curves] for column in ("overall", "old", "new")),
        [curve.forgetting for curve in curves],
        [curve.average("top5") for curve in curves],
    ]


def step_table(rows: Sequence[Row], column: str = "overall") -> Table:
    """A line for each method, a column for each step."""
    n_steps = max(row["step"] for row in rows)
    lines = []
    for name, curves in curves_of(rows).items():
        lines.append([name, *(mean_and_deviation(at_step(curves, step, column)) for step in range(1, n_steps + 1))])
    return ["after step", *(str(step) for step in range(1, n_steps + 1))], lines


def at_step(curves: Sequence[Curve], step: int, column: str = "overall") -> list[float]:
    """The numbers of those curves that have come to a step."""
    return [row[column] for curve in curves for row in curve.rows if row["step"] == step]


def paper_of(curves: Sequence[Curve]) -> PaperCurve:
    """The paper's numbers for a line; all missing if it has no such line."""
    first = curves[0].rows[0]
    return PAPER.get(first["cell"], {}).get(label_of(first), PaperCurve())


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
    config, memory = row["config"], row["memory"].partition(":")[0]
    of_row = (row["learner"], config["head"], memory, row["corrector"])
    for name, method in METHODS.items():
        composed = (method.learner, method.head or head_of(method.learner), method.memory, method.corrector)
        if composed == of_row and (row["fed_back"], config["held_out"]) == _act_on_training(name):
            return name
    words = [config["head"], memory]
    if row["fed_back"] != "raw":
        words.append(f"fed back: {row['fed_back']}")
    elif config["held_out"]:  # trained on fewer images than its namesake that holds out none
        words.append("held out")
    return f"{row['learner']} ({', '.join(words)}) + {row['corrector']}"


def as_in_the_paper(row: Row) -> bool:
    """Whether network, schedule and protocol are those of the paper's cell."""
    preset, name = PRESETS.get(row["cell"]), label_of(row)
    return preset is not None and name in METHODS and bool(_config(name, preset.name, row["seed"]) == row["config"])


def _training_of(row: Row) -> tuple[Any, ...]:
    """What trainings of one cell differ in."""
    config = row["config"]
    return row["learner"], row["memory"], row["fed_back"], config["head"], config["held_out"]


def _act_on_training(method: str) -> tuple[str, float]:
    """What is fed back in the rows of a method, and which part of the exemplars they hold out."""
    config = _config(method, next(iter(PRESETS)), 0)
    return config["fed_back"], config["held_out"]


def _config(method: str, cell: str, seed: int) -> Row:
    """The settings of a method in a cell, nothing changed."""
    return config_of(find_method(method), PRESETS[cell], seed=seed).to_json()


def _beside_the_paper(curves: Sequence[Curve]) -> list[str]:
    """The paper's averages, and the difference of ours to the first."""
    paper, difference = paper_of(curves), difference_of(curves)
    theirs = ("" if value is None else f"{value:.1f}" for value in (paper.average1, paper.average5))
    return [*theirs, "" if difference is None else f"{difference:+.1f}"]
