"""Training images of each class, by cell or by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, PALE_BARS, VERMILLION
from energyalign.report.figures.common import (
    class_order,
    describe_order,
    draw_bars,
    name_classes,
    room_for_names,
    trainings_of,
)
from energyalign.report.panels import first_of_rows, grid_lines, panels, title_panel
from energyalign.report.trainings import Training, printable

_MAX_STEPS = 4


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each cell; for incremental runs, a row for each memory with up to four steps."""
    trainings = trainings_of("frequencies", runs)
    return _draw_steps(trainings) if trainings[0].in_steps else _draw_cells(trainings)


def _draw_cells(trainings: Sequence[Training]) -> Figure:
    cells: dict[tuple[str, bytes], Training] = {}
    for training in trainings:
        cells.setdefault((training.runs[0].config.name, training.counts.tobytes()), training)
    with panels(
        len(cells), what="Training images of each class", about=_cells(trainings), width=3.6,
        height=2.3 + room_for_names(trainings),
    ) as (figure, axes):  # fmt: skip
        for panel, training in zip(axes, cells.values(), strict=True):
            counts = training.counts[class_order(training)]
            draw_bars(panel, counts.astype(np.float64), facecolor=BLUE)
            name_classes(panel.xaxis, training)
            sizes = f"{counts.sum():,} images, {counts[0]:,} to {counts[-1]:,} per class"
            title_panel(panel, printable(training.cell) if len(cells) > 1 else "", sizes)
            _label(panel, training)
    return figure


def _draw_steps(trainings: Sequence[Training]) -> Figure:
    memories: dict[str, Training] = {}
    several_cells = len({training.runs[0].config.name for training in trainings}) > 1
    for training in trainings:
        memories.setdefault(_memory(training, several_cells=several_cells), training)
    drawn = [(name, training, step) for name, training in memories.items() for step in spread_steps(training)]
    columns = max(len(spread_steps(training)) for training in memories.values())
    common = next(iter(memories)) if len(memories) == 1 else ""
    with panels(
        len(drawn), what="Training images of each class, step by step",
        about=printable(", ".join(filter(None, [_cells(trainings), common]))), columns=columns, width=2.4,
    ) as (figure, axes):  # fmt: skip
        for panel, (name, training, step) in zip(axes, drawn, strict=True):
            _draw_step(panel, training.runs[0], step)
            title_panel(panel, "" if common else printable(name), f"step {step}")
            _label(panel, training)
        for panel in set(axes) - set(first_of_rows(axes)):
            panel.set_ylabel("")
    return figure


def _cells(trainings: Sequence[Training]) -> str:
    return printable(", ".join(dict.fromkeys(training.cell for training in trainings)))


def _memory(training: Training, *, several_cells: bool) -> str:
    """Describe the settings that determine the number of images of old and new classes."""
    run = training.runs[0]
    held_out = f"held out: {run.config.held_out:g}" if run.config.held_out else ""
    cell = run.config.name if several_cells else ""
    return ", ".join(filter(None, [cell, f"memory {run.rows[0].memory}", held_out]))


def spread_steps(training: Training) -> list[int]:
    """Return up to four measured steps, including the first and the last; of 20 the paper's 1, 7, 13, 20."""
    steps = sorted({row.step for row in training.runs[0].rows})
    places = (k * (len(steps) - 1) // (_MAX_STEPS - 1) for k in range(_MAX_STEPS))
    return [steps[place] for place in dict.fromkeys(places)]


def _draw_step(axes: Axes, run: StoredRun, step: int) -> None:
    n_classes = len(run.class_names)
    counts, n_old = run.counts(step).astype(np.float64), int(run.rows_at(step)[0].n_old)
    if n_old:
        draw_bars(axes, counts[:n_old], n_classes=n_classes, label="old classes", **PALE_BARS)
    draw_bars(
        axes, counts[n_old:], first=n_old, n_classes=n_classes, facecolor=VERMILLION, hatch="////", edgecolor="white",
        linewidth=0, label="new classes",
    )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlim(-0.6, n_classes - 0.4)  # includes classes of later steps


def _label(axes: Axes, training: Training) -> None:
    axes.set(xlabel=f"class, {describe_order(training)}", ylabel="training images")
    axes.set_ylim(bottom=0)
    grid_lines(axes)
