"""Is the model right as often as it is sure: confidence against accuracy, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY, INK, PALE_BARS, grid_lines, panels, title_panel
from energyalign.report.figures.common import about, panel_title, trainings_of, with_and_without
from energyalign.report.tables.model import Cell
from energyalign.report.trainings import ALIGNED, AS_TRAINED, corrected_outputs

_BINS = 15
_MODELS = {AS_TRAINED: ("raw model", GREY, "s"), ALIGNED: ("after energy aligning", BLUE, "o")}


class Bins(NamedTuple):
    """Test images by confidence, in bins of equal width: how many, how many right, their summed confidence."""

    images: NDArray[np.float64]
    right: NDArray[np.float64]
    confidence: NDArray[np.float64]

    @property
    def calibration_error(self) -> float:
        """The expected one: mean distance of accuracy and confidence, weighted by the images of a bin."""
        return float(np.abs(self.right - self.confidence).sum() / self.images.sum())


def draw(runs: Sequence[StoredRun]) -> Figure:
    """A row of two panels for each training; images of all seeds are in the same bins."""
    trainings, note = with_and_without("reliability", trainings_of("reliability", runs))
    what = "Confidence and accuracy on the test images"
    with panels(
        2 * len(trainings), what=what, about=about(trainings), columns=2, width=3.6, height=3.0, sharey=True,
        ylabel="accuracy; share of images", note=note,
    ) as (figure, axes):  # fmt: skip
        drawn = [(training, corrector) for training in trainings for corrector in _MODELS]
        for panel, (training, corrector) in zip(axes, drawn, strict=True):
            of_runs = [binned(run, row) for run, row in training.measured(corrector)]
            name, colour, marker = _MODELS[corrector]
            _draw_panel(panel, of_runs, label=f"accuracy, {name}", color=colour, marker=marker)
            error = Cell.over_seeds([bins.calibration_error for bins in of_runs])
            title_panel(panel, panel_title(training, trainings), name, f"expected calibration error {error} %")
    return figure


def binned(run: StoredRun, row: Row) -> Bins:
    """The test images of a run by the largest softmax output."""
    logits, labels = corrected_outputs(run, row)
    largest = logits.max(axis=1, keepdims=True)
    confidence = 1.0 / np.exp(logits - largest).sum(axis=1, dtype=np.float64)
    place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    right = (logits.argmax(axis=1) == labels).astype(np.float64)
    images = np.ones(len(labels))
    counted = [np.bincount(place, weights, minlength=_BINS) for weights in (images, right, confidence)]
    return Bins(*(np.asarray(of_bins, dtype=np.float64) for of_bins in counted))


def _draw_panel(axes: Axes, of_runs: Sequence[Bins], **look: str) -> None:
    images, right, confidence = (np.sum(parts, axis=0) for parts in zip(*of_runs, strict=True))
    filled = images > 0
    axes.bar(
        (np.arange(_BINS) + 0.5) / _BINS, images / images.sum(), 0.9 / _BINS, label="share of images", **PALE_BARS,
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=1.0, label="as right as sure")
    axes.plot(
        (confidence[filled] / images[filled]), right[filled] / images[filled], markersize=4.5, **look,  # type: ignore[arg-type]
    )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence")
    grid_lines(axes, "both")
