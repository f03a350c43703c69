"""Effective sample size of each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyalign.core.estimators.lse import MIN_EFFECTIVE_SAMPLES
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY, VERMILLION, deviation_over_seeds
from energyalign.report.figures.common import (
    about,
    command_for,
    missing_error,
    note_left_out,
    panel_title,
    trainings_of,
)
from energyalign.report.panels import grid_lines, panels, plain_log, title_panel
from energyalign.report.trainings import Training


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each training with evidence; correctors with the same evidence have the same numbers."""
    trainings = trainings_of("effective-samples", runs)
    correctors = {training: _first_with_evidence(training) for training in trainings}
    drawn = {training: corrector for training, corrector in correctors.items() if corrector is not None}
    if not drawn:
        command = f"{command_for(trainings)} --corrector ea"
        raise missing_error("effective-samples", "rows of a corrector that reads evidence", command)
    note = note_left_out(trainings, drawn, "no corrector read evidence")
    with panels(
        len(drawn), what="Effective sample size of each class", about=about(list(drawn)), width=3.0, height=2.5,
        sharey=True, ylabel="effective sample size", note=note,
    ) as (figure, axes):  # fmt: skip
        for panel, (training, corrector) in zip(axes, drawn.items(), strict=True):
            _draw_panel(panel, training, corrector)
            title_panel(panel, panel_title(training, trainings))
    return figure


def _first_with_evidence(training: Training) -> str | None:
    """Return ea, or the first other corrector that read the evidence."""
    names = sorted(training.correctors, key=lambda name: name != "ea")
    return next((name for name in names if training.measured(name)[0][1].effective_samples is not None), None)


def _draw_panel(axes: Axes, training: Training, corrector: str) -> None:
    rows = [row for _, row in training.measured(corrector)]
    samples = np.array([row.effective_samples for row in rows], dtype=np.float64)
    counts = training.counts
    axes.errorbar(
        counts, samples.mean(axis=0), yerr=deviation_over_seeds(samples), fmt="o", color=BLUE, markersize=3.5,
        elinewidth=0.8, capsize=1.5, label="a class",
    )  # fmt: skip
    plan = rows[0].evidence
    assert plan is not None  # it has effective samples
    total = plan.per_class * len(counts)
    axes.axhline(total, color=GREY, linestyle="--", linewidth=1.2, label="all samples of the evidence")
    axes.axhline(
        MIN_EFFECTIVE_SAMPLES, color=VERMILLION, linestyle=":", linewidth=1.2,
        label=f"lse warns below {MIN_EFFECTIVE_SAMPLES:g}",
    )  # fmt: skip
    axes.set_ylim(0.8, 1.5 * total)
    plain_log(axes.yaxis)
    plain_log(axes.xaxis)
    axes.set_xlabel("training images of the class")
    grid_lines(axes, "both")
