"""What all figures have in common: their look, and how they reach a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from energyalign.core.atomic import atomic_write

# From the colour-blind safe palette of Okabe and Ito.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
DARK_GREY, LIGHT_GREY = "#666666", "#BBBBBB"


@contextlib.contextmanager
def drawing(path: Path, *, width: float, height: float, title: str) -> Iterator[Figure]:
    """An empty figure, in inches; once it is drawn, it is a PNG file with the same bytes for the same numbers."""
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "svg.hashsalt": "energyalign"}):
        figure = Figure(figsize=(width, height), layout="constrained", dpi=160)
        FigureCanvasAgg(figure)
        figure.suptitle(title)
        yield figure
        with atomic_write(path, "wb") as stream:
            figure.savefig(stream, format="png", metadata={"Software": None})


def deviation_over_seeds(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Standard deviation of each column; None for one seed, which has none."""
    return np.asarray(values.std(axis=0, ddof=1)) if len(values) > 1 else None
