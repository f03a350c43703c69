"""Classes along an axis: in which order, and what is written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyalign.report.names import short
from energyalign.report.trainings import Training

_MOST_NAMES = 20
_MOST_LARGE = 12
_UPRIGHT = 2
"""Letters of a name that find room below a bar."""
_LETTER = 0.075
_MOST_BARS = 100


def class_order(training: Training) -> NDArray[np.int64]:
    """Most training images first; classes that came in steps in their order of arrival."""
    counts = training.counts
    return np.arange(len(counts)) if training.in_steps else np.argsort(-counts, kind="stable")


def told_order(training: Training) -> str:
    """For the label of the axis."""
    return "in order of arrival" if training.in_steps else "most images first"


def room_for_names(trainings: Sequence[Training]) -> float:
    """What the names of classes need beside or below a panel, in inches, over what numbers need."""
    named = [name for each in trainings if len(each.counts) <= _MOST_NAMES for name in each.class_names]
    longest = max((len(short(name)) for name in named), default=0)
    return _LETTER * longest if longest > _UPRIGHT else 0.0


def name_classes(axis: Any, training: Training) -> None:
    """The names of the classes along an x or y axis, if they are few enough to be read."""
    names = [short(training.class_names[k]) for k in class_order(training)]
    if len(names) > _MOST_NAMES:
        axis.set_major_locator(MaxNLocator(5, integer=True))
        return
    axis.set_ticks(range(len(names)), names, fontsize=9 if len(names) <= _MOST_LARGE else 7)
    # Long names would run into each other below the columns.
    if axis.axis_name == "x" and max(map(len, names)) > _UPRIGHT:
        axis.set_tick_params(labelrotation=90)


def draw_bars(axes: Axes, heights: NDArray[np.float64], *, first: int = 0, **look: Any) -> None:
    """A bar for each class from the first on; so many that they touch are one shape."""
    if len(heights) > _MOST_BARS:
        axes.stairs(heights, first - 0.5 + np.arange(len(heights) + 1), fill=True, **look)
    else:
        axes.bar(first + np.arange(len(heights)), heights, **look)
