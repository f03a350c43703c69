"""Confusion matrices beside each other, on one colour scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyalign.report.drawing import VERMILLION, drawing

# White where nothing is: kind to printers, and darker is more in grey too.
_COLOURS = "Blues"
_MOST_NAMES = 20


def draw_confusions(
    path: Path,
    *,
    matrices: Mapping[str, NDArray[np.float64]],
    title: str,
    n_old: int | None = None,
    class_names: Sequence[str] | None = None,
    label: str = "test images",
) -> None:
    """Draw ``log(1 + n)`` of every matrix into a PNG file: rare confusions show beside frequent ones.

    Parameters
    ----------
    path : Path
    matrices : mapping from str to array of shape (n_classes, n_classes)
        For each panel its title, and the numbers n of (true class, predicted class).
    title : str
    n_old : int, optional
        A thin line is drawn between so many first classes and the others.
    class_names : sequence of str, optional
        In the order of the matrices; shown if they are few enough to be read.
    label : str
        What n counts.
    """
    highest = max(float(matrix.max()) for matrix in matrices.values())
    with drawing(path, width=3.5 * len(matrices) + 0.8, height=4.2, title=title) as figure:
        figure.set_layout_engine("compressed")  # square panels leave room between them otherwise
        panels = figure.subplots(1, len(matrices), sharey=True, squeeze=False)[0]
        for index, (axes, (name, matrix)) in enumerate(zip(panels, matrices.items(), strict=True)):
            image = axes.imshow(np.log1p(matrix), cmap=_COLOURS, vmin=0.0, vmax=np.log1p(highest))
            axes.spines[["top", "right"]].set_visible(True)
            axes.set_title(name)
            axes.set_xlabel("predicted class")
            if index == 0:
                axes.set_ylabel("true class")
            _name_classes(axes, len(matrix), class_names)
            if n_old is not None:
                for draw_line in (axes.axhline, axes.axvline):
                    draw_line(n_old - 0.5, color=VERMILLION, linewidth=0.9)
        ticks = _counts_to_name(highest)
        bar = figure.colorbar(image, ax=panels, ticks=np.log1p(ticks), label=f"{label} (log scale)", shrink=0.85)
        bar.ax.set_yticklabels([f"{tick:g}" for tick in ticks])


def _name_classes(axes: Any, n_classes: int, names: Sequence[str] | None) -> None:
    if n_classes > _MOST_NAMES:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        return
    classes, shown = range(n_classes), names or [str(k) for k in range(n_classes)]
    axes.set_yticks(classes, shown)
    # Long names would run into each other below the columns.
    axes.set_xticks(classes, shown, rotation=90 if max(map(len, shown)) > 2 else 0)


def _counts_to_name(highest: float) -> NDArray[np.float64]:
    """0, 1, 3, 10, 30, ... up to the highest."""
    steps = np.array([factor * 10.0**power for power in range(9) for factor in (1, 3)])
    return np.concatenate([[0.0], steps[steps <= highest]])
