"""Accuracy by strength of the correction, from 0 to 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.core.metrics import ClassScores
from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY, INK, ORANGE, VERMILLION, deviation_over_seeds
from energyalign.report.figures.common import about, command_for, missing_error, panel_title, seeds_behind, trainings_of
from energyalign.report.panels import end_at_100, grid_lines, panels, title_panel
from energyalign.report.trainings import Training, scores_by_strength

STRENGTHS = tuple(k / 10 for k in range(21))
_CORRECTORS = ("ea", "ea-marginal", "logit-adjustment")
_LOOKS: dict[str, dict[str, Any]] = {
    HEADLINE: {"color": INK, "linestyle": "-", "linewidth": 2.0, "marker": "o"},
    "many": {"color": BLUE, "linestyle": "--", "marker": "s"},
    "medium": {"color": ORANGE, "linestyle": "-.", "marker": "D"},
    "few": {"color": VERMILLION, "linestyle": ":", "marker": "^"},
    "old": {"color": BLUE, "linestyle": "--", "marker": "s"},
    "new": {"color": VERMILLION, "linestyle": ":", "marker": "^"},
}


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each training and corrector; strengths 0 and 1 are marked."""
    trainings = trainings_of("strength", runs)
    drawn = [
        (training, corrector) for training in trainings for corrector in _CORRECTORS if training.measured(corrector)
    ]
    if not drawn:
        raise missing_error(
            "strength", f"rows of one of {', '.join(_CORRECTORS)}", f"{command_for(trainings)} --corrector ea"
        )
    columns = max(sum(training is other for other, _ in drawn) for training, _ in drawn)
    with panels(
        len(drawn), what="Balanced accuracy by strength of the correction", about=about(trainings),
        columns=columns, width=2.8, height=2.5, sharey=True, ylabel="balanced accuracy, %",
    ) as (figure, axes):  # fmt: skip
        for panel, (training, corrector) in zip(axes, drawn, strict=True):
            _draw_panel(panel, training, corrector)
            title_panel(panel, panel_title(training, trainings), corrector, seeds_behind(training, corrector))
        end_at_100(axes)
    return figure


def _draw_panel(axes: Axes, training: Training, corrector: str) -> None:
    by_run = [
        [_groups(training, scores) for scores in scores_by_strength(run, row, STRENGTHS)]
        for run, row in training.measured(corrector)
    ]
    for group in by_run[0][0]:
        values = np.array([[100.0 * at_strength[group] for at_strength in of_run] for of_run in by_run])
        if not np.isnan(values).all():
            _draw_line(axes, group, values)
    for marked in (0.0, 1.0):
        axes.axvline(marked, color=GREY, linewidth=0.8, zorder=0)
    axes.set_xticks([0, 0.5, 1, 1.5, 2], ["0\nraw", "0.5", "1\nfull", "1.5", "2"])
    axes.set_xlabel("strength")
    grid_lines(axes)


def _draw_line(axes: Axes, group: str, values: NDArray[np.float64]) -> None:
    mean, deviation = values.mean(axis=0), deviation_over_seeds(values)
    marks = [STRENGTHS.index(0.0), STRENGTHS.index(1.0)]
    label = "all" if group == HEADLINE else group
    axes.plot(STRENGTHS, mean, label=label, markevery=marks, markersize=5, clip_on=False, **_LOOKS[group])
    if deviation is not None:
        low, high = mean - deviation, mean + deviation
        axes.fill_between(STRENGTHS, low, high, color=_LOOKS[group]["color"], alpha=0.15, linewidth=0)


def _groups(training: Training, scores: ClassScores) -> dict[str, float]:
    """Return the balanced accuracy of all classes and of each group, as in the rows."""
    n_old = training.n_old
    groups = (
        {"old": scores.mean_over(slice(n_old)), "new": scores.mean_over(slice(n_old, None))}
        if training.in_steps
        else scores.groups(training.counts)
    )
    return {HEADLINE: scores.balanced_accuracy, **groups}
