"""Accuracy as classes come: top-1 and top-5 after every step."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.needs import lacking
from energyalign.report.figures.panels import legend_below, panels
from energyalign.report.figures.step_curves import draw_curves, looks_of
from energyalign.report.figures.trainings import about, check_one_cell, trainings_of
from energyalign.report.names import shown
from energyalign.report.tables.curves import curves_of, label_of
from energyalign.report.trainings import Training

_COLUMNS = {"overall": "top-1 accuracy, %", "top5": "top-5 accuracy, %"}


def draw(runs: Sequence[StoredRun]) -> Figure:
    """A curve for each corrector, or for each method if the runs are of several trainings."""
    trainings = trainings_of("steps", runs)
    if not trainings[0].in_steps:
        raise lacking("steps", "runs whose classes came in steps", "energyalign incremental DATASET")
    check_one_cell("steps", trainings)
    _check_settings(trainings)
    rows = [row for training in trainings for run in training.runs for row in run.rows]
    curves = {shown(name): seeds for name, seeds in curves_of(rows).items()}
    looks = looks_of(list(curves))
    with panels(
        len(_COLUMNS), what="Accuracy on all classes seen so far", about=about(trainings), columns=2, width=4.2,
        height=3.0 + 0.1 * len(curves),
    ) as (figure, axes):  # fmt: skip
        for panel, (column, label) in zip(axes, _COLUMNS.items(), strict=True):
            draw_curves(panel, curves, column, looks)
            panel.set_ylabel(label)
        legend_below(figure, axes)
    return figure


def _check_settings(trainings: Sequence[Training]) -> None:
    """Refuse trainings whose curves would have one name, and be averaged as if they were seeds."""
    named: dict[tuple[str, str | None], Training] = {}
    for training in trainings:
        by_corrector = {row.corrector: row for run in training.runs for row in run.rows}
        for row in by_corrector.values():
            other = named.setdefault((label_of(row), row.memory), training)
            if other is not training:
                raise EnergyAlignError(
                    f"the figure steps has one curve for {shown(label_of(row))}, and was given trainings of it that "
                    f"differ ({other.label}; {training.label}): draw a figure of each."
                )
