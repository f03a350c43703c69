"""The paper's first figure: training counts beside negative free energies, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from energyalign.report.drawing import BLUE, LIGHT_GREY, deviation_over_seeds, drawing


def draw_energies(
    path: Path,
    *,
    counts: ArrayLike,
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    title: str,
    class_names: Sequence[str] | None = None,
) -> None:
    """Draw both panels into a PNG file.

    Parameters
    ----------
    path : Path
    counts : array of shape (n_classes,)
        Training images per class.
    before, after : arrays of shape (n_seeds, n_classes)
        Negative free energies, on one scale.
    title : str
    class_names : sequence of str, optional
    """
    with drawing(path, width=8.0, height=3.2, title=title) as figure:
        low, high = _limits(before, after)
        panels = figure.subplots(1, 2, sharey=True)
        for index, (axes, name, values) in enumerate(zip(panels, ("raw", "corrected"), (before, after), strict=True)):
            energy_axes = axes.twinx()
            _draw_panel(axes, energy_axes, np.asarray(counts, dtype=np.float64), values, class_names)
            energy_axes.set_ylim(low, high)
            axes.set_title(f"{name} model")
            if index == 0:
                axes.set_ylabel("training images")
                energy_axes.set_yticklabels([])
            else:
                energy_axes.set_ylabel("negative free energy", color=BLUE)


def _draw_panel(
    axes: Any, energy_axes: Any, counts: NDArray[np.float64], values: NDArray[np.float64], names: Sequence[str] | None
) -> None:
    classes = np.arange(len(counts))
    axes.bar(classes, counts, color=LIGHT_GREY)
    axes.set_xlabel("class")
    axes.set_xticks(classes, names or [str(k) for k in classes])
    energy_axes.errorbar(
        classes, values.mean(axis=0), yerr=deviation_over_seeds(values), color=BLUE, marker="o", markersize=4,
        capsize=2, linewidth=1.4,
    )  # fmt: skip
    energy_axes.tick_params(axis="y", colors=BLUE)


def _limits(*energies: NDArray[np.float64]) -> tuple[float, float]:
    low = min(float(values.min()) for values in energies)
    high = max(float(values.max()) for values in energies)
    margin = 0.08 * (high - low)
    return low - margin, high + margin
