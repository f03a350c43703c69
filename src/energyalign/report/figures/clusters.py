"""Balanced accuracy of energy aligning by number of clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator
from numpy.typing import NDArray

from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY, ORANGE, mean_and_deviation
from energyalign.report.figures.common import about, missing_error, note_left_out, panel_title, trainings_of
from energyalign.report.panels import end_at_100, grid_lines, panels, title_panel
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training

_FIXED_NUMBER = re.compile(r"ea-M(\d+)")
_LINES = {
    AS_TRAINED: {"label": "raw", "color": GREY, "linestyle": "--"},
    ALIGNED: {"label": "ea, chosen number", "color": ORANGE, "linestyle": "-."},
}


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each training that has rows with several numbers of clusters."""
    everything = trainings_of("clusters", runs)
    several = [training for training in everything if len(_numbers(training)) > 1]
    trainings = [shared for training in several if (shared := training.shared_by(*_drawn(training))).runs]
    if not trainings:
        raise missing_error(
            "clusters", "rows with several numbers of clusters",
            "energyalign longtail DATASET --clusters 1 2 4 8",
        )  # fmt: skip
    note = note_left_out(everything, trainings, "no rows with several numbers of clusters")
    with panels(
        len(trainings), what="Balanced accuracy by number of clusters", about=about(trainings), width=4.0, height=2.7,
        ylabel="balanced accuracy, %", note=note,
    ) as (figure, axes):  # fmt: skip
        for panel, training in zip(axes, trainings, strict=True):
            _draw_panel(panel, training)
            title_panel(panel, panel_title(training, trainings), _choice(training))
        end_at_100(axes)
    return figure


def _numbers(training: Training) -> dict[int, str]:
    """Return the correctors with a fixed number of clusters, by that number."""
    numbers = {int(match[1]): name for name in training.correctors if (match := _FIXED_NUMBER.fullmatch(name))}
    return dict(sorted(numbers.items()))


def _drawn(training: Training) -> list[str]:
    """Return all correctors of a panel; they are compared on the same seeds."""
    return [*_numbers(training).values(), *(name for name in _LINES if name in training.correctors)]


def _choice(training: Training) -> str:
    chosen = sorted({row.n_clusters for row in training.rows_of(ALIGNED) if row.n_clusters is not None})
    return f"ea chose {', '.join(map(str, chosen))} clusters" if chosen else ""


def _balanced(training: Training, corrector: str) -> NDArray[np.float64]:
    return training.percentages(corrector, [HEADLINE])[:, 0]


def _draw_panel(axes: Axes, training: Training) -> None:
    numbers = _numbers(training)
    means, deviations = mean_and_deviation([_balanced(training, name) for name in numbers.values()])
    axes.errorbar(
        np.array(list(numbers)), means, yerr=deviations, color=BLUE, marker="o", capsize=2,
        label="ea, fixed number",
    )  # fmt: skip
    for corrector, look in _LINES.items():
        fixed = _balanced(training, corrector)
        if len(fixed):
            mean = float(fixed.mean())
            axes.axhline(mean, **look)  # type: ignore[arg-type]
        if len(fixed) > 1:
            deviation = float(fixed.std(ddof=1))
            axes.axhspan(mean - deviation, mean + deviation, color=look["color"], alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(list(numbers), list(map(str, numbers)))
    axes.set_xlabel("number of clusters")
    grid_lines(axes)
