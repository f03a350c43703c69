"""Accuracy as classes come: a curve for each method, over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from energyalign.report.drawing import (
    BLUE,
    DARK_GREY,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    deviation_over_seeds,
    drawing,
)

# Colour, marker and line all differ, so that curves can be told apart in print too; taken in turn, no two of 56 curves
# have all three in common.
_COLOURS = (DARK_GREY, ORANGE, BLUE, GREEN, VERMILLION, PURPLE, SKY)
_MARKERS = "s^oDvPX*"
_LINES = ("--", "-.", "-", ":")
_SPREAD = 0.15
"""Of the distance between two steps: bars of deviations at the same step stand beside each other, not on each other."""
_MOST_TICKS = 12
_MOST_INSIDE = 5
"""Curves whose names find a place between them."""


def draw_steps(
    path: Path,
    *,
    curves: Mapping[str, NDArray[np.float64]],
    title: str,
    x: ArrayLike | None = None,
    x_label: str = "after step",
    y_label: str = "accuracy, %",
) -> None:
    """Draw mean and standard deviation over seeds of every curve into a PNG file.

    Parameters
    ----------
    path : Path
    curves : mapping from str to array of shape (n_seeds, n_steps)
        The first is drawn as the baseline, dashed and grey.
    title : str
    x : array of shape (n_steps,), optional
        Where the steps stand: for example the number of classes seen; by default 1, 2, ...
    x_label, y_label : str
    """
    n_steps = next(iter(curves.values())).shape[1]
    places = np.arange(1, n_steps + 1) if x is None else np.asarray(x, dtype=np.float64)
    with drawing(path, width=8.0, height=3.6, title=title) as figure:
        axes = figure.subplots()
        axes.spines["right"].set_visible(False)
        offsets = _offsets(len(curves), places)
        for k, (name, values) in enumerate(curves.items()):
            axes.errorbar(
                places + offsets[k], values.mean(axis=0), yerr=deviation_over_seeds(values), label=name,
                color=_COLOURS[k % len(_COLOURS)], marker=_MARKERS[k % len(_MARKERS)],
                linestyle=_LINES[k % len(_LINES)], markersize=4.5, capsize=2, linewidth=1.4, elinewidth=0.8,
            )  # fmt: skip
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if n_steps <= _MOST_TICKS:
            axes.set_xticks(places, [f"{place:g}" for place in places])
        else:
            axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS, integer=True))
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        if len(curves) <= _MOST_INSIDE:
            axes.legend(frameon=False)
        else:
            figure.legend(loc="outside right upper", frameon=False)


def _offsets(n_curves: int, places: NDArray[np.float64]) -> Sequence[float]:
    distance = float(np.diff(places).min()) if len(places) > 1 else 1.0
    return (distance * _SPREAD * np.linspace(-1, 1, n_curves)).tolist() if n_curves > 1 else [0.0]
