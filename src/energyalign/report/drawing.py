"""What all figures have in common: their look, and how they reach a file or a page."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.report.crowded import crowds_as_pixels

# From the colour-blind safe palette of Okabe and Ito, its orange darker: 3:1 and more on a light and a dark page.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE = "#0072B2", "#AD7700", "#009E73", "#D55E00", "#CC79A7"
GREY, GRID = "#7A7A7A", "#80808059"
PALE_BARS: dict[str, Any] = {"facecolor": GRID, "edgecolor": GREY, "linewidth": 0.8}
"""Bars that something is drawn over: it is seen on their pale inside, and they by their outline."""
INK = "#1A1A1B"
"""Text, axes and ticks: nothing else has this colour, so that it can be exchanged on a dark page."""
_ON_DARK = {INK: "#E8E8E8", BLUE: "#3D9BDC"}
"""What takes the place of colours that thin lines and text would be hard to read in."""

_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "figure.titlesize": 10,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "text.parse_math": False,  # a class may be called $x
    "svg.fonttype": "path",  # looks the same wherever it is opened, whatever fonts there are
    "svg.hashsalt": "energyalign",
    "pdf.fonttype": 42,
}
# No dates, no versions: the same numbers give the same bytes.
_METADATA = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextlib.contextmanager
def new_figure(*, width: float, height: float, title: str) -> Iterator[Figure]:
    """An empty figure in our look, in inches, to be drawn on inside the context."""
    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=(width, height), layout="constrained", dpi=160)
        FigureCanvasAgg(figure)
        figure.suptitle(title)
        yield figure


def check_suffix(path: Path) -> None:
    """Refuse a file that `save_figure` could not write, before anything is drawn."""
    if path.suffix.lower() not in _METADATA:
        raise EnergyAlignError(f"{path}: a figure is a .png, .svg or .pdf file. Give it a name that ends so.")


def save_figure(figure: Figure, path: Path) -> None:
    """Write it as a PNG, SVG or PDF file, as the name says; the same bytes for the same numbers."""
    check_suffix(path)
    suffix = path.suffix.lower()
    with mpl.rc_context(_LOOK), atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=suffix[1:], metadata=_METADATA[suffix])


def page_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element for the ``<img>`` of a page, light or dark as the reader has it.

    The background is transparent, and text and axes have the colour that can be read on it. Letters are drawn as
    shapes: in an ``<img>`` they could not be selected anyway, and so they need no room that was not reserved. Crowds of
    points or bars are pixels, whose colour is the same on a light and a dark page.
    """
    stream = io.StringIO()
    with mpl.rc_context(_LOOK), crowds_as_pixels(figure):
        figure.savefig(stream, format="svg", metadata=_METADATA[".svg"], transparent=True)
    text = stream.getvalue()
    opening = text.index("<svg ")
    end = text.index(">", opening) + 1
    body = text[end:].replace(INK.lower(), "currentColor").replace(BLUE.lower(), "var(--blue)")
    light, dark = (f"svg{{color:{ink};--blue:{blue}}}" for ink, blue in ((INK, BLUE), (_ON_DARK[INK], _ON_DARK[BLUE])))
    return f"{text[opening:end]}\n <style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>{body}"


def deviation_over_seeds(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Standard deviation of each column; None for one seed, which has none."""
    return np.asarray(values.std(axis=0, ddof=1)) if len(values) > 1 else None


def summarised(groups: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Mean and standard deviation of each group of seeds, which may be of any size; None if no group has one."""
    means = np.array([float(seeds.mean()) for seeds in groups])
    deviations = np.array([float(seeds.std(ddof=1)) if len(seeds) > 1 else np.nan for seeds in groups])
    return means, None if np.isnan(deviations).all() else deviations
