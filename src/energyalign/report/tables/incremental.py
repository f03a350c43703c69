"""The class-incremental tables of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyalign.experiments.engine.config import Method
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.learners import LEARNERS
from energyalign.experiments.incremental.paper import PAPER, PaperCurve
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.report.tables.beside import PaperLayout, Slot
from energyalign.report.tables.curves import Curve, curves_by_seed, label_of, selection_of
from energyalign.report.tables.model import Cell, Column
from energyalign.report.tables.steps import MAX_BESIDE, step_group

_MEASURES = {"top1": "overall", "top5": "top5"}


class Incremental:
    """How its rows are read; see `energyalign.report.tables.beside.Application`."""

    any_runs = "incremental"

    def method_of(self, row: Row) -> str:
        """The name of its line."""
        return label_of(row)

    def setting_in_paper(self, row: Row) -> dict[str, Any] | None:
        """What its config would be in the paper's cell; None for a learner of the user's own."""
        if row.learner not in LEARNERS:
            return None
        method = Method(row.learner, row.corrector, "", "", row.config.head, selection_of(row))
        return config_of(method, PRESETS[row.cell], seed=row.seed, fed_back=row.fed_back).to_json()

    def ours(self, rows: Sequence[Row], slot: Slot) -> list[float | None]:
        """Of each seed; an average needs all of its steps."""
        return [_number(curve, slot) for curve in curves_by_seed(rows)]

    def paper(self, method: str, slot: Slot) -> Cell:
        """The printed number."""
        curve = PAPER[slot.cell].get(method, PaperCurve())
        number = slot.measure[-1]
        if slot.step is None:
            return Cell(getattr(curve, f"average{number}"), getattr(curve, f"average_deviation{number}"))
        steps, deviations = getattr(curve, f"top{number}"), getattr(curve, f"deviations{number}")
        return Cell(steps[slot.step - 1] if steps else None, deviations[slot.step - 1] if deviations else None)


def _number(curve: Curve, slot: Slot) -> float | None:
    column = _MEASURES[slot.measure]
    if slot.step is None:
        return curve.average(column) if curve.is_whole else None
    return next((row.accuracy(column) for row in curve.rows if row.step == slot.step), None)


def _steps(cell: str, measure: str, group: str = "") -> list[Slot]:
    """A slot for each step and one for their average, which the paper takes from the second step on."""
    n_steps = PRESETS[cell].n_steps
    by_step = [Slot(Column(f"{n}", group or step_group(n, n_steps)), cell, measure, n) for n in range(1, n_steps + 1)]
    return [*by_step, Slot(Column("Avg", by_step[-1].column.group), cell, measure)]


def _cifar(n_steps: int, number: int) -> PaperLayout:
    cell = f"cifar100-il-{n_steps}"
    title = f"Top-1 accuracy (%) on CIFAR-100 in {n_steps} steps; Avg from the second step on"
    methods = tuple(PAPER[cell])
    slots = tuple(_steps(cell, "top1"))
    return PaperLayout(cell, title, number, slots, methods, Incremental(), stacked=n_steps > MAX_BESIDE)


def _imagenet(cell: str, name: str, number: int) -> PaperLayout:
    title = f"Top-5 and top-1 accuracy (%) on {name} in 10 steps; Avg from the second step on"
    slots = (*_steps(cell, "top5", "top-5"), *_steps(cell, "top1", "top-1"))
    return PaperLayout(cell, title, number, slots, tuple(PAPER[cell]), Incremental(), stacked=True)


INCREMENTAL = (
    _imagenet("imagenet100-il-10", "ImageNet-100", 1),
    _imagenet("imagenet-il-10", "ImageNet", 2),
    _cifar(20, 6),
    _cifar(10, 7),
    _cifar(5, 8),
    _cifar(2, 9),
)
