"""Confusion matrices, raw and aligned, on a log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from energyalign.core.metrics import confusion_matrix
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import VERMILLION
from energyalign.report.figures.common import (
    about,
    class_order,
    describe_order,
    name_classes,
    panel_title,
    room_for_names,
    trainings_of,
    with_and_without,
)
from energyalign.report.panels import first_of_rows, panels, size_ticks, title_panel
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training

# White for 0, and readable in grey scale.
_COLOURS = "Blues"
_MAX_BLOCKS = 100
_MODELS = {AS_TRAINED: "raw", ALIGNED: "aligned"}


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw two panels for each training: numbers of test images, mean over seeds, all on one scale."""
    trainings, note = with_and_without("confusion", trainings_of("confusion", runs))
    matrices = {
        (training, corrector): in_blocks(_mean_confusion(training, corrector))
        for training in trainings
        for corrector in _MODELS
    }
    highest = max(float(matrix.max()) for matrix in matrices.values())
    room = room_for_names(trainings)
    with panels(
        len(matrices), what="Confusion matrix", about=about(trainings), columns=2, width=3.6 + room / 2,
        height=3.5 + room, sharey="row", note=note,
    ) as (figure, axes):  # fmt: skip
        # The default layout puts square panels too far apart, and leaves no space for titles between rows.
        figure.set_layout_engine("compressed", h_pad=0.12)
        for panel, ((training, corrector), matrix) in zip(axes, matrices.items(), strict=True):
            image = _draw_panel(panel, training, matrix, highest)
            title_panel(panel, panel_title(training, trainings), _MODELS[corrector])
        ticks = _counts_to_name(highest)
        label = "test images (log scale)" + (", mean over seeds" if len(trainings[0].runs) > 1 else "")
        bar = figure.colorbar(image, ax=axes, ticks=np.log1p(ticks).tolist(), label=label, shrink=0.85, aspect=30)
        size_ticks(bar.ax)
        bar.ax.set_yticklabels([f"{tick:g}" for tick in ticks])
    return figure


def in_blocks(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over blocks of neighbouring classes, if there are more than `_MAX_BLOCKS` classes."""
    starts = np.arange(0, len(matrix), block_size(len(matrix)))
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, starts, axis=0), starts, axis=1))


def block_size(n_classes: int) -> int:
    """Return the number of classes per block."""
    return math.ceil(n_classes / _MAX_BLOCKS)


def _mean_confusion(training: Training, corrector: str) -> NDArray[np.float64]:
    """Return the mean confusion matrix over seeds, with classes in the order of the axes."""
    order = class_order(training)
    matrices = np.array([_confusion(run, row) for run, row in training.measured(corrector)], dtype=np.float64)
    return np.asarray(matrices.mean(axis=0))[np.ix_(order, order)]


def _confusion(run: StoredRun, row: Row) -> NDArray[np.int64]:
    labels = run.outputs(row.step).labels
    return confusion_matrix(labels, run.predictions(row), len(row.counts))


def _draw_panel(axes: Axes, training: Training, matrix: NDArray[np.float64], highest: float) -> AxesImage:
    n_classes = len(training.counts)
    edge = block_size(n_classes) * len(matrix) - 0.5  # the last block may extend beyond the last class
    image = axes.imshow(
        np.log1p(matrix), cmap=_COLOURS, vmin=0.0, vmax=np.log1p(highest), interpolation="nearest",
        extent=(-0.5, edge, edge, -0.5),
    )  # fmt: skip
    axes.set(xlim=(-0.5, n_classes - 0.5), ylim=(n_classes - 0.5, -0.5))
    axes.spines[["top", "right"]].set_visible(True)
    blocks = f", {block_size(n_classes)} per square" if block_size(n_classes) > 1 else ""
    axes.set_xlabel(f"predicted class\n{describe_order(training)}{blocks}")
    name_classes(axes.xaxis, training)
    name_classes(axes.yaxis, training)
    if first_of_rows([axes]):
        axes.set_ylabel(f"true class{blocks}")
    if training.n_old:
        for divide in (axes.axhline, axes.axvline):
            divide(training.n_old - 0.5, color=VERMILLION, linewidth=0.9)
    return image


def _counts_to_name(highest: float) -> NDArray[np.float64]:
    """Return 0, 1, 3, 10, 30, ... up to the highest."""
    steps = np.array([factor * 10.0**power for power in range(9) for factor in (1, 3)])
    return np.concatenate([[0.0], steps[steps <= highest]])
