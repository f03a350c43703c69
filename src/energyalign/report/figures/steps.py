"""Accuracy as classes come: top-1 and top-5 after every step."""

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
from energyalign.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, VIOLET, summarised
from energyalign.report.figures.common import about, check_one_cell, in_order, lacking, trainings_of
from energyalign.report.panels import end_at_100, grid_lines, panels
from energyalign.report.tables.incremental import Curve, curves_of, label_of
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training, shown

_COLUMNS = {HEADLINE: "top-1 accuracy, %", "top5": "top-5 accuracy, %"}
_COLOURS = (ORANGE, GREEN, VERMILLION, PURPLE, VIOLET)
_MARKERS = "^Dv*Xp<Ph>d8"
_LINES = ("-", (0, (5, 2)), (0, (1, 1.2)))  # not as many as colours: fifteen pairs
_MAX_TICKS = 12
_SPREAD = 0.12
"""Of the distance between two steps: bars of deviations at the same step stand beside each other, not on each other."""


def draw(runs: Sequence[StoredRun]) -> Figure:
    """A curve for each corrector, or for each method if the runs are of several trainings."""
    trainings = trainings_of("steps", runs)
    if not trainings[0].in_steps:
        raise lacking("steps", "runs whose classes came in steps", "energyalign incremental DATASET")
    check_one_cell("steps", trainings)
    _check_settings(trainings)
    rows = [row for training in trainings for run in training.runs for row in run.rows]
    unordered = curves_of(rows)
    curves = {name: unordered[name] for name in in_order(unordered)}
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
    """Add labels to the looks, with the number of seeds where that is not the same for all curves."""
    differ = len({len(seeds) for seeds in curves.values()}) > 1
    for name, seeds in curves.items():
        looks[name]["label"] = shown(f"{name}, {count_of(len(seeds), 'seed')}" if differ else name)


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


def looks_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Thick for energy aligning and the network as trained; colour, marker and line differ for the others."""
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
    """Mean and standard deviation over seeds of a column, in per cent, after each step that was measured."""
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
    """Steps, means and deviations.

    A seed that is not finished is missing in its later steps, and a number that is missing is no nought: there are no
    old classes in the first step.
    """
    by_step: dict[int, list[float]] = {}
    for curve in curves:
        for row in curve.rows:
            share = row.accuracy(column)
            if share is not None:
                by_step.setdefault(row.step, []).append(100.0 * share)
    steps = sorted(by_step)
    return np.array(steps), *summarised([np.array(by_step[step]) for step in steps])
