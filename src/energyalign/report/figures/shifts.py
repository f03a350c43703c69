"""Shifts with their standard errors against minus the log prior, which is logit adjustment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY
from energyalign.report.figures.common import (
    about,
    command_for,
    missing_error,
    panel_title,
    seeds_behind,
    trainings_of,
)
from energyalign.report.panels import grid_lines, panels, title_panel
from energyalign.report.trainings import Training


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each training and corrector with estimated shifts.

    Shifts are centred: a constant added to all classes changes nothing.
    """
    trainings = trainings_of("shifts", runs)
    drawn = [(training, corrector) for training in trainings for corrector in _shift_correctors(training)]
    if not drawn:
        raise missing_error("shifts", "rows with estimated shifts", f"{command_for(trainings)} --corrector ea")
    note = "Bars: standard error of a shift in one run."
    if max(len(training.runs) for training in trainings) > 1:
        note += " Points: mean over seeds."
    with panels(
        len(drawn), what="Estimated shifts against minus the log prior", about=about(trainings),
        columns=_columns(drawn), width=2.8, height=2.5, ylabel="shift, centred", note=note,
    ) as (figure, axes):  # fmt: skip
        for panel, (training, corrector) in zip(axes, drawn, strict=True):
            _draw_panel(panel, training, corrector)
            title_panel(panel, panel_title(training, trainings), corrector, seeds_behind(training, corrector))
    return figure


def _columns(drawn: Sequence[tuple[Training, str]]) -> int:
    """Return the number of panels per row: the panels of one training, at most 3."""
    return min(3, max(sum(training is other for other, _ in drawn) for training, _ in drawn))


def _shift_correctors(training: Training) -> list[str]:
    """Return the correctors with estimated shifts; logit adjustment is drawn as a line."""
    names = [name for name in training.correctors if name != "logit-adjustment"]
    return [name for name in names if training.measured(name)[0][1].estimator not in (None, "none")]


def _draw_panel(axes: Axes, training: Training, corrector: str) -> None:
    counts = training.counts.astype(np.float64)
    seen = counts > 0  # a class without training images has no log prior
    expected = _centred(-np.log(counts[seen] / counts.sum()))
    rows = [row for _, row in training.measured(corrector)]
    shifts = np.mean([_centred(np.array(row.shifts)[seen]) for row in rows], axis=0)
    variances = [np.array(row.standard_errors, dtype=np.float64)[seen] ** 2 for row in rows]
    errors = np.sqrt(np.mean(variances, axis=0))
    ends = np.array([expected.min(), expected.max()])
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1.2, label="logit adjustment (slope 1)")
    axes.errorbar(
        expected, shifts, yerr=errors, fmt="o", color=BLUE, markersize=3.5, elinewidth=0.8, capsize=1.5,
        label="shift of a class",
    )  # fmt: skip
    axes.set_xlabel("-log prior, centred")
    grid_lines(axes, "both")


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values - values.mean())
