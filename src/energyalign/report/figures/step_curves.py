"""Curves over incremental steps, each with a look of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyalign.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, summarised
from energyalign.report.figures.panels import grid_lines
from energyalign.report.tables.curves import Curve
from energyalign.report.trainings import ALIGNED, AS_TRAINED

_COLOURS = (ORANGE, GREEN, VERMILLION, PURPLE)
_MARKERS = "^DvPX*<"
_LINES = ("-.", ":", (0, (4, 1, 1, 1, 1, 1)))  # not as many as colours: no two go together always
_SPREAD = 0.12
"""Of the distance between two steps: bars of deviations at the same step stand beside each other, not on each other."""


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
    offsets = _SPREAD * np.linspace(-1, 1, len(curves)) if len(curves) > 1 else np.zeros(1)
    for offset, (name, seeds) in zip(offsets, curves.items(), strict=True):
        steps, mean, deviation = _over_seeds(seeds, column)
        axes.errorbar(steps + offset, mean, yerr=deviation, label=name, capsize=1.5, elinewidth=0.8, **looks[name])
    axes.set_xlabel("after step")
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
