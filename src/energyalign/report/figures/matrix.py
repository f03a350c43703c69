"""Balanced accuracy of every training with every corrector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import INK, current_style
from energyalign.report.figures.common import about, panel_title, trainings_of
from energyalign.report.panels import panels, text_scale
from energyalign.report.tables.best import are_best
from energyalign.report.tables.model import Cell, Column
from energyalign.report.trainings import Training, sort_correctors

_COLOURS = "Blues"
_DARK_ABOVE = 0.6
"""Position on the colour scale; numbers on darker colours are white."""
_MISSING = "–"
_LETTER, _LINE, _MAX_WIDTH = 0.07, 0.28, 12.0
"""Inches with text of 9 points: width of a letter, height of a row, and default maximum width of the figure."""


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw balanced accuracy, of incremental runs after the last step.

    As in the table of this name, the best number of each training and all that are not clearly worse are in bold.
    Trainings are rows and correctors columns, or the other way round if that is too wide.
    """
    trainings = trainings_of("matrix", runs)
    correctors = sort_correctors({name for training in trainings for name in training.correctors})
    cells = [_numbers(training, correctors) for training in trainings]
    labels = [panel_title(training, trainings) or training.label for training in trainings]
    sides = {"training": labels, "corrector": correctors}
    if not _fits(labels, correctors, cells) and len(trainings) < len(correctors):
        sides = {"corrector": correctors, "training": labels}
        cells = [list(column) for column in zip(*cells, strict=True)]
    (down, lines), (across, columns) = sides.items()
    width = _width(lines, columns, cells)
    narrow = current_style().width
    if narrow is not None and text_scale() * width > narrow:
        raise EnergyAlignError(
            f"the figure matrix needs {text_scale() * width:.1f} inches for {count_of(len(columns), 'column')}: use a "
            "larger width or a smaller font size, or select fewer rows."
        )
    return _draw(cells, trainings, (down, lines), (across, columns), width)


class _Numbers(NamedTuple):
    """Content of a cell."""

    text: str
    mean: float | None
    best: bool


def _numbers(training: Training, correctors: Sequence[str]) -> list[_Numbers]:
    """Return mean and deviation over seeds for each corrector, with the number of seeds if some are missing."""
    cells = [Cell.over_seeds({row.seed: row.balanced for row in training.rows_of(name)}) for name in correctors]
    few = [f"\n(n = {cell.n})" if cell.n is not None and cell.n < len(training.runs) else "" for cell in cells]
    texts = [_MISSING if cell.mean is None else f"{cell}{note}" for cell, note in zip(cells, few, strict=True)]
    means = [cell.mean for cell in cells]
    return list(map(_Numbers, texts, means, are_best(cells, Column(HEADLINE))))


def _draw(
    cells: Sequence[Sequence[_Numbers]], trainings: Sequence[Training], vertical: tuple[str, Sequence[str]],
    horizontal: tuple[str, Sequence[str]], width: float,
) -> Figure:  # fmt: skip
    means = np.array([[numbers.mean for numbers in line] for line in cells], dtype=np.float64)
    height = sum(_LINE * (1 + max(numbers.text.count("\n") for numbers in line)) for line in cells)
    with panels(
        1, what="Balanced accuracy of every training with every corrector, %", about=about(trainings), columns=1,
        width=width, height=0.9 + height, note="Bold: best of its training, or not clearly worse over the same seeds.",
    ) as (figure, (axes,)):  # fmt: skip
        axes.imshow(means, cmap=_COLOURS, aspect="auto", interpolation="nearest", norm=_colours(means))
        darkness = _colours(means)(means)
        for i, line in enumerate(cells):
            for j, numbers in enumerate(line):
                is_dark = numbers.mean is not None and darkness[i, j] > _DARK_ABOVE
                axes.text(
                    j, i, numbers.text, ha="center", va="center", fontsize="small",
                    color="white" if is_dark else INK if numbers.mean is None else "black",
                    fontweight="bold" if numbers.best else "normal",
                )  # fmt: skip
        (down, lines), (across, columns) = vertical, horizontal
        slanted: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if len(columns) > 1 else {}
        axes.set_xticks(range(len(columns)), columns, **slanted)
        axes.set_yticks(range(len(lines)), lines)
        axes.set(xlabel=across, ylabel=down)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


def _width(lines: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[_Numbers]]) -> float:
    """Return the width in inches that row names and cells need, with text of 9 points."""
    longest = max(len(part) for line in cells for numbers in line for part in numbers.text.splitlines())
    return 0.6 + _LETTER * max(map(len, lines)) + max(0.48, 0.25 + 0.053 * longest) * len(columns)


def _fits(lines: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[_Numbers]]) -> bool:
    room = current_style().width or text_scale() * _MAX_WIDTH
    return text_scale() * _width(lines, columns, cells) <= room


def _colours(means: NDArray[np.float64]) -> Normalize:
    """Return the colour scale; the lowest number is not white, which would look like a missing number."""
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    room = max(high - low, 1.0)
    return Normalize(low - 0.25 * room, low + 1.1 * room)
