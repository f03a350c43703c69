"""Trainings that differ in one setting alone, beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.group_bars import draw_group_bars
from energyalign.report.figures.needs import lacking, with_and_without
from energyalign.report.figures.panels import first_of_rows, legend_below, panels, title_panel
from energyalign.report.figures.step_curves import draw_curves, looks_of
from energyalign.report.figures.trainings import about, trainings_of
from energyalign.report.tables.curves import Curve, curves_of
from energyalign.report.trainings import Training, setting


def draw_compared(
    figure_name: str, runs: Sequence[StoredRun], *, varied: str, value: Callable[[StoredRun], str], command: str
) -> Figure:
    """A row of panels for all trainings that differ in nothing but one setting, without and with energy aligning.

    Parameters
    ----------
    figure_name : str
    runs : sequence of StoredRun
    varied : str
        The setting, as a key of the config or of its recipe.
    value : callable
        What a panel is called.
    command : str
        What makes such runs.
    """
    trainings, note = with_and_without(figure_name, trainings_of(figure_name, runs))
    families: dict[str, list[Training]] = {}
    for training in trainings:
        families.setdefault(setting(training.runs[0], varied), []).append(training)
    several = [family for family in families.values() if len(family) > 1]
    if not several:
        kind = "incremental" if trainings[0].in_steps else "longtail"
        needs = f"trainings with rows of raw and ea that differ in the {varied} alone"
        raise lacking(figure_name, needs, f"energyalign {kind} DATASET {command}")
    compared = [training for family in several for training in family]
    others = [training.label for training in trainings if training not in compared]
    if others:
        note = f"Not shown, for want of a training that differs in the {varied} alone: {'; '.join(others)}. {note}"
    draw = _step_panels if compared[0].in_steps else _group_panels
    return draw(several, f"Without and with energy aligning, by {varied}", value, note.strip())


def _group_panels(
    families: Sequence[Sequence[Training]], what: str, value: Callable[[StoredRun], str], note: str
) -> Figure:
    trainings = [training for family in families for training in family]
    with panels(
        len(trainings), what=what, about=about(trainings), columns=_columns(families), width=3.2, height=2.4,
        sharey=True,
    ) as (figure, axes):  # fmt: skip
        for panel, training in zip(axes, trainings, strict=True):
            draw_group_bars(panel, training)
            title_panel(panel, _title(training, families, value))
        for panel in first_of_rows(axes):
            panel.set_ylabel("accuracy, %")
        legend_below(figure, axes, note=note)
    return figure


def _step_panels(
    families: Sequence[Sequence[Training]], what: str, value: Callable[[StoredRun], str], note: str
) -> Figure:
    trainings = [training for family in families for training in family]
    curves: list[dict[str, list[Curve]]] = [
        curves_of([row for run in training.runs for row in run.rows]) for training in trainings
    ]
    looks = looks_of(list(dict.fromkeys(name for of_training in curves for name in of_training)))
    with panels(
        len(trainings), what=what, about=about(trainings), columns=_columns(families), width=3.4, height=2.6,
        sharey=True,
    ) as (figure, axes):  # fmt: skip
        for panel, training, of_training in zip(axes, trainings, curves, strict=True):
            draw_curves(panel, of_training, "overall", looks)
            title_panel(panel, _title(training, families, value))
        for panel in first_of_rows(axes):
            panel.set_ylabel("top-1 accuracy, %")
        legend_below(figure, axes, note=note)
    return figure


def _columns(families: Sequence[Sequence[Training]]) -> int:
    """A family is a row; one that is too long goes on below."""
    return min(3, max(map(len, families)))


def _title(training: Training, families: Sequence[Sequence[Training]], value: Callable[[StoredRun], str]) -> str:
    """The label says more than the setting where there are several families."""
    return value(training.runs[0]) if len(families) == 1 else training.label
