"""Every training under every corrector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.experiments.correctors import CORRECTORS
from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.common import about, panel_title, trainings_of
from energyalign.report.panels import panels
from energyalign.report.tables.model import Cell, Column, are_best
from energyalign.report.trainings import Training

_COLOURS = "Blues"
_DARK_ABOVE = 0.6
"""Of the colour scale: numbers on darker colours are white."""
_MISSING = "–"


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Balanced accuracy, of an incremental run that after its last step; the best of each training in bold.

    As in the table of this name, numbers that are written alike are equally good.
    """
    trainings = trainings_of("matrix", runs)
    correctors = _in_order(trainings)
    cells = [[training.percentages(name, [HEADLINE])[:, 0] for name in correctors] for training in trainings]
    means = np.array([[seeds.mean() if len(seeds) else np.nan for seeds in line] for line in cells])
    labels = [panel_title(training, trainings) or training.label for training in trainings]
    with panels(
        1, what="Accuracy of every training under every corrector, %", about=about(trainings), columns=1,
        width=0.6 + 0.07 * max(map(len, labels)) + 0.78 * len(correctors), height=0.9 + 0.28 * len(trainings),
    ) as (figure, (axes,)):  # fmt: skip
        axes.imshow(means, cmap=_COLOURS, aspect="auto", interpolation="nearest", norm=_colours(means))
        darkness = _colours(means)(means)
        for i, line in enumerate(cells):
            best = are_best([None if np.isnan(mean) else mean for mean in means[i].tolist()], Column(HEADLINE))
            for j, seeds in enumerate(line):
                _write(axes, (j, i), seeds, dark=bool(darkness[i, j] > _DARK_ABOVE), bold=best[j])
        axes.set_xticks(range(len(correctors)), correctors, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel="corrector", ylabel="training")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


def _in_order(trainings: Sequence[Training]) -> list[str]:
    """As in the registry; then what is not in it, ``ea-M2`` before ``ea-M16``."""
    known = list(CORRECTORS)
    found = {name for training in trainings for name in training.correctors}
    others = sorted(found - set(known), key=lambda name: (len(name), name))
    return [name for name in known if name in found] + others


def _colours(means: NDArray[np.float64]) -> Normalize:
    """The lowest number has some colour: without any it would be taken for a missing one."""
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    room = max(high - low, 1.0)
    return Normalize(low - 0.25 * room, low + 1.1 * room)


def _write(axes: Axes, place: tuple[int, int], seeds: NDArray[np.float64], *, dark: bool, bold: bool) -> None:
    if not len(seeds):
        axes.text(*place, _MISSING, ha="center", va="center")
        return
    axes.text(
        *place, str(Cell.over_seeds((seeds / 100.0).tolist())), ha="center", va="center", fontsize=7,
        color="white" if dark else "black", fontweight="bold" if bold else "normal",
    )  # fmt: skip
