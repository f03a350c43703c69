"""Training counts and negative free energies, raw and aligned: the paper's first figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.core.free_energy import FreeEnergy
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import BLUE, PALE_BARS, deviation_over_seeds
from energyalign.report.figures.common import (
    about,
    class_order,
    describe_order,
    draw_bars,
    name_classes,
    panel_title,
    room_for_names,
    trainings_of,
    with_and_without,
)
from energyalign.report.panels import first_of_rows, panels, size_ticks, title_panel
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training, corrected_outputs

_MODELS = {AS_TRAINED: "raw", ALIGNED: "aligned"}
_MAX_POINTS = 50
_MARGIN = 0.08


def draw(runs: Sequence[StoredRun]) -> Figure:
    """Draw two panels for each training, with energies of the test images."""
    trainings, note = with_and_without("energies", trainings_of("energies", runs))
    what = "Training images and negative free energies on the test images"
    with panels(
        2 * len(trainings), what=what, about=about(trainings), columns=2, width=4.0,
        height=2.5 + room_for_names(trainings), note=note,
    ) as (figure, axes):  # fmt: skip
        for training, left, right in zip(trainings, axes[::2], axes[1::2], strict=True):
            energies = {corrector: _energies(training, corrector) for corrector in _MODELS}
            limits = _limits(*energies.values())
            for panel, (corrector, values) in zip((left, right), energies.items(), strict=True):
                beside = panel.twinx()
                size_ticks(beside)
                _draw_panel(panel, beside, training, values)
                beside.set_ylim(*limits)
                if panel.get_subplotspec().is_last_col() or panel is right:  # type: ignore[union-attr]
                    beside.set_ylabel("negative free energy", color=BLUE)
                title_panel(panel, panel_title(training, trainings), _MODELS[corrector])
        for panel in first_of_rows(axes):
            panel.set_ylabel("training images")
    return figure


def _energies(training: Training, corrector: str) -> NDArray[np.float64]:
    """Return energies of shape (runs, classes), centred: a constant added to all classes changes nothing."""
    values = np.array(
        [FreeEnergy().update(corrected_outputs(run, row).logits).values for run, row in training.measured(corrector)]
    )
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def _draw_panel(axes: Axes, beside: Any, training: Training, values: NDArray[np.float64]) -> None:
    order = class_order(training)
    draw_bars(axes, training.counts[order].astype(np.float64), **PALE_BARS)
    name_classes(axes.xaxis, training)
    axes.set_xlabel(f"class, {describe_order(training)}")
    mean, deviation = values.mean(axis=0)[order], deviation_over_seeds(values[:, order])
    places = np.arange(len(order))
    if len(order) <= _MAX_POINTS:
        look = {"marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.4}
        beside.errorbar(places, mean, yerr=deviation, color=BLUE, **look)
    else:
        beside.plot(places, mean, color=BLUE, linewidth=0.8)
        if deviation is not None:
            beside.fill_between(places, mean - deviation, mean + deviation, color=BLUE, alpha=0.25, linewidth=0)
    beside.tick_params(axis="y", colors=BLUE)


def _limits(*energies: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of an axis that shows all means with their deviations."""
    ends = []
    for values in energies:
        deviation = deviation_over_seeds(values)
        ends.append(values.mean(axis=0) + np.array([[-1.0], [1.0]]) * (0.0 if deviation is None else deviation))
    low, high = float(np.min(ends)), float(np.max(ends))
    margin = _MARGIN * (high - low)
    return low - margin, high + margin
