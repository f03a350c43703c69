"""Accuracy of many, medium and few classes, or of old and new ones, without and with energy aligning."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.group_bars import draw_group_bars
from energyalign.report.figures.needs import with_and_without
from energyalign.report.figures.panels import first_of_rows, legend_below, panels, title_panel
from energyalign.report.figures.trainings import about, panel_title, trainings_of


def draw(runs: Sequence[StoredRun]) -> Figure:
    """A panel for each training."""
    trainings, note = with_and_without("groups", trainings_of("groups", runs))
    with panels(
        len(trainings), what="Accuracy without and with energy aligning", about=about(trainings), width=3.2, height=2.4,
        sharey=True,
    ) as (figure, axes):  # fmt: skip
        for panel, training in zip(axes, trainings, strict=True):
            draw_group_bars(panel, training)
            title_panel(panel, panel_title(training, trainings))
        for panel in first_of_rows(axes):
            panel.set_ylabel("accuracy, %")
        legend_below(figure, axes, note=note)
    return figure
