"""Accuracy of many, medium and few classes, or of old and new classes, raw and aligned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyalign.core.metrics import shot_groups
from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY, INK, deviation_over_seeds
from energyalign.report.figures.common import about, panel_title, trainings_of, with_and_without
from energyalign.report.panels import grid_lines, panels, title_panel
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training

_WIDTH = 0.38
_LOOKS = {
    AS_TRAINED: {"label": "raw", "color": GREY},
    ALIGNED: {"label": "aligned", "color": BLUE, "hatch": "////"},
}


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each training."""
    trainings, note = with_and_without("groups", trainings_of("groups", runs))
    with panels(
        len(trainings), what="Balanced accuracy, raw and aligned", about=about(trainings), width=3.2, height=2.4,
        sharey=True, ylabel="balanced accuracy, %", note=note,
    ) as (figure, axes):  # fmt: skip
        for panel, training in zip(axes, trainings, strict=True):
            draw_group_bars(panel, training)
            title_panel(panel, panel_title(training, trainings))
    return figure


def groups_of(training: Training) -> dict[str, int]:
    """Return the number of classes in each non-empty group, by the field of a row that holds the accuracy."""
    counts = training.counts
    if training.in_steps:
        sizes = {"old": training.n_old, "new": len(counts) - training.n_old}
    else:
        sizes = {name: int(members.sum()) for name, members in shot_groups(counts, len(counts)).items()}
    return {name: size for name, size in sizes.items() if size} | {HEADLINE: len(counts)}


def draw_group_bars(axes: Axes, training: Training) -> None:
    """Draw two bars for each group, with mean and standard deviation over seeds; a dash marks missing numbers."""
    groups = groups_of(training)
    places = np.arange(len(groups))
    for offset, (corrector, look) in zip((-_WIDTH / 2, _WIDTH / 2), _LOOKS.items(), strict=True):
        values = training.percentages(corrector, list(groups))
        mean = values.mean(axis=0) if len(values) else np.full(len(groups), np.nan)
        deviation = deviation_over_seeds(values)
        axes.bar(places + offset, np.nan_to_num(mean), _WIDTH, edgecolor="white", linewidth=0, **look)  # type: ignore[arg-type]
        if deviation is not None:
            axes.errorbar(places + offset, mean, yerr=deviation, fmt="none", capsize=2, elinewidth=0.9, ecolor=INK)
        tops = np.nan_to_num(mean) + (0 if deviation is None else np.nan_to_num(deviation))
        for place, value, top in zip(places + offset, mean, tops, strict=True):
            text = "–" if np.isnan(value) else f"{value:.1f}" if value < 99.95 else "100"
            axes.annotate(text, (place, top), (0, 2), textcoords="offset points", ha="center", fontsize="x-small")
    axes.set_xticks(places, [f"{'all' if name == HEADLINE else name}\n({size})" for name, size in groups.items()])
    axes.set_ylim(0, 108)
    axes.set_yticks(range(0, 101, 20))
    axes.set_xlabel("classes (number)")
    grid_lines(axes)
