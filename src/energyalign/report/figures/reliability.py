"""Reliability diagram: confidence and accuracy, raw and aligned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyalign.core.calibration import N_BINS, Calibration, measure_calibration
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, GREY, INK, PALE_BARS
from energyalign.report.figures.common import about, panel_title, trainings_of, with_and_without
from energyalign.report.panels import grid_lines, panels, title_panel
from energyalign.report.tables.model import Cell
from energyalign.report.trainings import ALIGNED, AS_TRAINED, corrected_outputs

_MIN_SHARE = 0.01
"""Bins with a smaller share of the test images have no point: their accuracy is noise."""
_MAX_AREA, _MIN_AREA = 70.0, 8.0
"""Areas of points; the fullest bin has the maximum."""
_MODELS = {AS_TRAINED: ("raw", GREY, "s"), ALIGNED: ("aligned", BLUE, "o")}


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw two panels for each training; the images of all seeds are pooled."""
    trainings, note = with_and_without("reliability", trainings_of("reliability", runs))
    note = f"Area of a point: share of images; bins below {100 * _MIN_SHARE:g} % have none. {note}".strip()
    what = "Confidence and accuracy on the test images"
    with panels(
        2 * len(trainings), what=what, about=about(trainings), columns=2, width=3.6, height=3.0, sharey=True,
        ylabel="accuracy; share of images", note=note,
    ) as (figure, axes):  # fmt: skip
        drawn = [(training, corrector) for training in trainings for corrector in _MODELS]
        for panel, (training, corrector) in zip(axes, drawn, strict=True):
            of_runs = [measure_calibration(*corrected_outputs(run, row)) for run, row in training.measured(corrector)]
            name, colour, marker = _MODELS[corrector]
            _draw_panel(panel, of_runs, label=f"accuracy, {name}", color=colour, marker=marker)
            error = Cell.over_seeds([measured.ece for measured in of_runs])
            title_panel(panel, panel_title(training, trainings), name, f"expected calibration error {error} %")
    return figure


def _draw_panel(axes: Axes, of_runs: Sequence[Calibration], **look: str) -> None:
    images, right, confidence = (
        np.sum([getattr(measured, name) for measured in of_runs], axis=0) for name in ("samples", "right", "confidence")
    )
    share = images / images.sum()
    axes.bar((np.arange(N_BINS) + 0.5) / N_BINS, share, 0.9 / N_BINS, label="share of images", **PALE_BARS)
    axes.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=1.0, label="perfectly calibrated")
    full = share >= _MIN_SHARE
    sure, is_right = confidence[full] / images[full], right[full] / images[full]
    axes.plot(sure, is_right, color=look["color"], linewidth=1.0)
    sizes = np.maximum(_MAX_AREA * share[full] / share.max(), _MIN_AREA)
    axes.scatter(sure, is_right, sizes, zorder=3, clip_on=False, **look)  # type: ignore[arg-type]
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence")
    grid_lines(axes, "both")
