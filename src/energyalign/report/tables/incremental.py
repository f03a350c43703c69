"""Curves of incremental runs: their names and summaries; and the incremental tables of the paper."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from energyalign.experiments.engine.config import Method
from energyalign.experiments.engine.row import HEADLINE, Row
from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.learners import LEARNERS
from energyalign.experiments.incremental.methods import METHODS, head_of
from energyalign.experiments.incremental.metrics import average, forgetting
from energyalign.experiments.incremental.paper import PAPER, PaperCurve
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.report.tables.beside import Application, PaperLayout, Slot
from energyalign.report.tables.model import MAX_BESIDE, Cell, Column, step_group
from energyalign.report.tables.order import evidence_suffix, line_key, training_key
from energyalign.report.tables.settings import check_one_setting, differences_from_paper

_MEASURES = {"top1": HEADLINE, "top5": "top5"}
SUMMARY = ("average", "with step 1", "last step", "old", "new", "forgetting", "top-5 average")


class Curve(NamedTuple):
    """The rows of one run with one corrector, step by step; an unfinished run has fewer."""

    rows: list[Row]

    @property
    def last(self) -> Row:
        """Row of the last measured step."""
        return self.rows[-1]

    def average(self, column: str = HEADLINE, *, with_first: bool = False) -> float:
        """Return the mean over steps, from the second on as in the paper unless `with_first`."""
        values = [row.accuracy(column) for row in self.rows if with_first or row.step > 1]
        return average([value for value in values if value is not None], with_first=True)

    @property
    def forgetting(self) -> float:
        """Mean loss from the best accuracy on the classes of each step; NaN if a step is missing."""
        if [row.step for row in self.rows] != list(range(1, len(self.rows) + 1)):
            return math.nan
        return forgetting([row.groups for row in self.rows])

    @property
    def is_whole(self) -> bool:
        """Whether every step has a row."""
        return len(self.rows) == self.last.n_steps


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows into lines of a table, by name; the memory is part of a name if it differs within a cell."""
    memories = defaultdict(set)
    for row in rows:
        memories[row.cell, label_of(row)].add(row.memory)
    several = {label for (_, label), sizes in memories.items() if len(sizes) > 1}
    one_training = not several and len({_training_of(row) for row in rows}) == 1
    evidence, place = evidence_suffix(rows), training_key(rows, _training_of, LEARNERS)
    lines: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (place(row), line_key(row))):
        label = label_of(row)
        name = row.corrector if one_training else label
        name += f", {row.memory}" if label in several else ""
        lines.setdefault(name + evidence(row), []).append(row)
    for name, same in lines.items():
        for cell in dict.fromkeys(row.cell for row in same):
            check_one_setting((row for row in same if row.cell == cell), name)
    return lines


def curves_of(rows: Sequence[Row]) -> dict[str, list[Curve]]:
    """Return the curves of each line of a table, one for each seed; all rows must be of one cell."""
    return {name: curves_by_seed(same) for name, same in lines_of(rows).items()}


def curves_by_seed(rows: Sequence[Row]) -> list[Curve]:
    """Return the curve of each seed, from the rows of one line; a repeated row counts once."""
    by_seed: dict[int, dict[int, Row]] = {}
    for row in rows:
        by_seed.setdefault(row.seed, {})[row.step] = row
    return [Curve([by_step[step] for step in sorted(by_step)]) for by_step in by_seed.values()]


def summary_of(curves: Sequence[Curve]) -> list[dict[int, float | None]]:
    """Return for each column of `SUMMARY` the number of each seed, from 0 to 1."""
    numbers: list[Callable[[Curve], float | None]] = [
        lambda curve: curve.average(),
        lambda curve: curve.average(with_first=True),
        lambda curve: curve.last.accuracy(HEADLINE),
        lambda curve: curve.last.accuracy("old"),
        lambda curve: curve.last.accuracy("new"),
        lambda curve: curve.forgetting,
        lambda curve: curve.average("top5"),
    ]
    return [{curve.last.seed: number(curve) for curve in curves} for number in numbers]


def at_step(curves: Sequence[Curve], step: int, column: str = HEADLINE) -> dict[int, float | None]:
    """Return the numbers at a step, by seed, of the curves that have reached it."""
    return {row.seed: row.accuracy(column) for curve in curves for row in curve.rows if row.step == step}


def paper_of(curves: Sequence[Curve]) -> PaperCurve:
    """Return the paper's numbers for a line; all are missing if it has none."""
    first = curves[0].rows[0]
    return PAPER.get(first.cell, {}).get(label_of(first), PaperCurve())


def difference_of(curves: Sequence[Curve]) -> float | None:
    """Return our average minus the paper's for ea in the paper's setting; None for other lines."""
    theirs = paper_of(curves).average1
    # The paper quotes its other methods from papers with other networks, orders and subsets.
    comparable = all(curve.is_whole and as_in_the_paper(curve.last) for curve in curves)
    if theirs is None or label_of(curves[0].rows[0]) != "ea" or not comparable:
        return None
    return 100 * statistics.mean(curve.average() for curve in curves) - theirs


def label_of(row: Row) -> str:
    """Return the name of the method, or its parts if it has no name."""
    selection = selection_of(row)
    of_row = (row.learner, row.config.head, selection, row.corrector)
    for name, method in METHODS.items():
        composed = (method.learner, method.head or head_of(method.learner), method.memory, method.corrector)
        if composed == of_row and (row.fed_back, row.config.held_out) == _act_on_training(name):
            return name
    return f"{row.learner} ({', '.join([row.config.head, selection, *_feedback(row)])}) + {row.corrector}"


def training_of(row: Row) -> str:
    """Describe the training of a row, without its corrector."""
    return f"{row.learner} ({', '.join([row.config.head, str(row.memory), *_feedback(row)])})"


def trainings_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by training; names omit the size of the memory if it depends only on the cell."""
    by_cell = {(row.cell, _training_of(row), row.memory) for row in rows}
    several_cells = len({row.cell for row in rows}) > 1
    sizes_matter = not several_cells or len(by_cell) > len({key[:2] for key in by_cell})
    trainings: dict[str, list[Row]] = {}
    for row in sorted(rows, key=training_key(rows, _training_of, LEARNERS)):
        words = [row.config.head, selection_of(row), *_feedback(row)]
        name = training_of(row) if sizes_matter else f"{row.learner} ({', '.join(words)})"
        trainings.setdefault(name, []).append(row)
    return trainings


def selection_of(row: Row) -> str:
    """Return how the exemplars were selected."""
    return str(row.memory).partition(":")[0]


def setting_in_paper(row: Row) -> dict[str, Any] | None:
    """Return the config of the row's training in the paper's cell; None for a user's own learner."""
    if row.learner not in LEARNERS:
        return None
    method = Method(row.learner, row.corrector, "", "", row.config.head, selection_of(row))
    return config_of(method, PRESETS[row.cell], seed=row.seed, fed_back=row.fed_back).to_json()


def as_in_the_paper(row: Row) -> bool:
    """Return whether network, schedule and protocol agree with the paper's cell."""
    if row.cell not in PRESETS or label_of(row) not in METHODS:
        return False
    return not differences_from_paper(row.config.values, setting_in_paper(row))


def _feedback(row: Row) -> list[str]:
    if row.fed_back != "raw":
        return [f"fed back: {row.fed_back}"]
    return ["held out"] if row.config.held_out else []


def _training_of(row: Row) -> tuple[Any, ...]:
    """Return the settings that distinguish trainings; the size of the memory depends on the cell."""
    return row.learner, selection_of(row), row.fed_back, row.config.head, row.config.held_out


def _act_on_training(method: str) -> tuple[str, float]:
    """Return what a method feeds back, and the share of exemplars that it holds out."""
    config = config_of(METHODS[method], next(iter(PRESETS.values())), seed=0).to_json()
    return config["fed_back"], config["held_out"]


def _ours(rows: Sequence[Row], slot: Slot) -> dict[int, float | None]:
    """Return the number of each seed; an average needs all steps."""
    return {curve.last.seed: _number(curve, slot) for curve in curves_by_seed(rows)}


def _number(curve: Curve, slot: Slot) -> float | None:
    column = _MEASURES[slot.measure]
    if slot.step is None:
        return curve.average(column) if curve.is_whole else None
    return next((row.accuracy(column) for row in curve.rows if row.step == slot.step), None)


def _paper(method: str, slot: Slot) -> Cell:
    curve = PAPER[slot.cell].get(method, PaperCurve())
    number = slot.measure[-1]
    if slot.step is None:
        return Cell(getattr(curve, f"average{number}"), getattr(curve, f"average_deviation{number}"))
    steps, deviations = getattr(curve, f"top{number}"), getattr(curve, f"deviations{number}")
    return Cell(steps[slot.step - 1] if steps else None, deviations[slot.step - 1] if deviations else None)


_READ = Application("incremental", label_of, setting_in_paper, _ours, _paper)


def _steps(cell: str, measure: str, group: str = "") -> list[Slot]:
    """Return a slot for each step and one for their average, which the paper takes from the second step on."""
    n_steps = PRESETS[cell].n_steps
    by_step = [Slot(Column(f"{n}", group or step_group(n, n_steps)), cell, measure, n) for n in range(1, n_steps + 1)]
    return [*by_step, Slot(Column("Avg", by_step[-1].column.group), cell, measure)]


def _cifar(n_steps: int, number: int) -> PaperLayout:
    cell = f"cifar100-il-{n_steps}"
    title = f"Top-1 accuracy (%) on CIFAR-100 in {n_steps} steps; Avg from the second step on"
    methods = tuple(PAPER[cell])
    slots = tuple(_steps(cell, "top1"))
    return PaperLayout(cell, title, number, slots, methods, _READ, stacked=n_steps > MAX_BESIDE)


def _imagenet(cell: str, name: str, number: int) -> PaperLayout:
    title = f"Top-5 and top-1 accuracy (%) on {name} in 10 steps; Avg from the second step on"
    slots = (*_steps(cell, "top5", "top-5"), *_steps(cell, "top1", "top-1"))
    return PaperLayout(cell, title, number, slots, tuple(PAPER[cell]), _READ, stacked=True)


INCREMENTAL = (
    _imagenet("imagenet100-il-10", "ImageNet-100", 1),
    _imagenet("imagenet-il-10", "ImageNet", 2),
    _cifar(20, 6),
    _cifar(10, 7),
    _cifar(5, 8),
    _cifar(2, 9),
)
