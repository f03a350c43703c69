"""Balanced accuracy and top-5 accuracy after every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, VIOLET, mean_and_deviation
from energyalign.report.figures.common import about, check_one_cell, missing_error, trainings_of
from energyalign.report.panels import end_at_100, grid_lines, panels
from energyalign.report.tables.incremental import Curve, curves_of, label_of
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training, printable

_COLUMNS = {HEADLINE: "balanced accuracy, %", "top5": "top-5 accuracy, %"}
_COLOURS = (ORANGE, GREEN, VERMILLION, PURPLE, VIOLET)
_MARKERS = "^Dv*Xp<Ph>d8"
_LINES = ("-", (0, (5, 2)), (0, (1, 1.2)))  # 3 lines and 5 colours: 15 pairs
_MAX_TICKS = 12
_SPREAD = 0.12
"""Horizontal offset of error bars, in steps, so that they do not overlap."""


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a curve for each corrector, or for each method if there are several trainings."""
    trainings = trainings_of("steps", runs)
    if not trainings[0].in_steps:
        raise missing_error("steps", "runs whose classes came in steps", "energyalign incremental DATASET")
    check_one_cell("steps", trainings)
    _check_settings(trainings)
    rows = [row for training in trainings for run in training.runs for row in run.rows]
    curves = curves_of(rows)
    looks = looks_of(list(curves))
    _name_curves(curves, looks)
    with panels(
        len(_COLUMNS), what="Accuracy on all classes seen so far", about=about(trainings), columns=2, width=4.2,
        height=2.8,
    ) as (figure, axes):  # fmt: skip
        for panel, (column, label) in zip(axes, _COLUMNS.items(), strict=True):
            draw_curves(panel, curves, column, looks)
            panel.set_ylabel(label)
        end_at_100(axes)
    return figure


def _name_curves(curves: Mapping[str, Sequence[Curve]], looks: Mapping[str, dict[str, Any]]) -> None:
    """Add labels to the looks, with the number of seeds if it differs between curves."""
    differ = len({len(seeds) for seeds in curves.values()}) > 1
    for name, seeds in curves.items():
        looks[name]["label"] = printable(f"{name}, {count_of(len(seeds), 'seed')}" if differ else name)


def _check_settings(trainings: Sequence[Training]) -> None:
    """Raise if different trainings would share a curve, and be averaged like seeds."""
    named: dict[tuple[str, str | None], Training] = {}
    for training in trainings:
        by_corrector = {row.corrector: row for run in training.runs for row in run.rows}
        for row in by_corrector.values():
            other = named.setdefault((label_of(row), row.memory), training)
            if other is not training:
                raise EnergyAlignError(
                    f"the figure steps must have one training of {printable(label_of(row))}, got {other.label} and "
                    f"{training.label}: draw a figure of each."
                )


def looks_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the style of each curve: thick for energy aligning and the raw network, distinct for the others."""
    baseline = AS_TRAINED if AS_TRAINED in names else "distill"  # the paper's method without its correction
    fixed = {
        ALIGNED: {"color": BLUE, "marker": "o", "linestyle": "-", "linewidth": 2.2, "markersize": 5, "zorder": 3},
        baseline: {"color": GREY, "marker": "s", "linestyle": "--", "linewidth": 2.0, "markersize": 4.5},
    }
    others = [name for name in names if name not in fixed]
    cycled = {
        name: {
            "color": _COLOURS[k % len(_COLOURS)], "marker": _MARKERS[k % len(_MARKERS)],
            "linestyle": _LINES[k % len(_LINES)], "linewidth": 1.1, "markersize": 4,
        }
        for k, name in enumerate(others)
    }  # fmt: skip
    return {name: fixed.get(name) or cycled[name] for name in names}


def draw_curves(
    axes: Axes, curves: Mapping[str, Sequence[Curve]], column: str, looks: Mapping[str, dict[str, Any]]
) -> None:
    """Draw mean and standard deviation over seeds, in percent, after each measured step."""
    spread = _SPREAD if any(len(seeds) > 1 for seeds in curves.values()) else 0.0
    offsets = spread * np.linspace(-1, 1, len(curves)) if len(curves) > 1 else np.zeros(1)
    for offset, (name, seeds) in zip(offsets, curves.items(), strict=True):
        steps, mean, deviation = _over_seeds(seeds, column)
        look = {"label": name, "capsize": 1.5, "elinewidth": 0.8, **looks[name]}
        axes.errorbar(steps + offset, mean, yerr=deviation, **look)
    axes.set_xlabel("after step")
    measured = sorted({row.step for seeds in curves.values() for curve in seeds for row in curve.rows})
    if len(measured) <= _MAX_TICKS:
        axes.set_xticks(measured)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    grid_lines(axes)


def _over_seeds(
    curves: Sequence[Curve], column: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Return steps, means and deviations, over the seeds that have a number at that step."""
    by_step: dict[int, list[float]] = {}
    for curve in curves:
        for row in curve.rows:
            share = row.accuracy(column)
            if share is not None:
                by_step.setdefault(row.step, []).append(100.0 * share)
    steps = sorted(by_step)
    return np.array(steps), *mean_and_deviation([np.array(by_step[step]) for step in steps])
