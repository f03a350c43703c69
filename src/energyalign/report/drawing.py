"""Style of figures, and how they are saved to a file or embedded in a page."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from numpy.typing import NDArray

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.terminal import clean
from energyalign.core.errors import EnergyAlignError

# Colour-blind safe palette of Okabe and Ito, with a darker orange: contrast of 3:1 or more on light and dark pages.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE = "#0072B2", "#AD7700", "#009E73", "#D55E00", "#CC79A7"
VIOLET = "#7A68C8"
"""Colour outside that palette; a sixth line also has its own marker and dashes."""
GREY, GRID = "#7A7A7A", "#80808059"
PALE_BARS: dict[str, Any] = {"facecolor": GRID, "edgecolor": GREY, "linewidth": 0.8}
"""Style of bars in the background: pale, with an outline, so that lines drawn over them stay visible."""
INK = "#1A1A1B"
"""Colour of text, axes and ticks only, because it is replaced on a dark page."""
_ON_DARK = {INK: "#E8E8E8", BLUE: "#3D9BDC"}
"""Colours that are replaced on a dark page."""

_LOOK: dict[Any, Any] = {
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,  # 99.2, not 0.2 with an offset of 99
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "text.parse_math": False,  # a class may be called $x
    "svg.fonttype": "path",  # looks the same without the font
    "svg.hashsalt": "energyalign",
    "pdf.fonttype": 42,
}
# No dates and versions: the same numbers give the same bytes.
_METADATA = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
FONT_SIZE, _FONT_IN_PAPER = 9.0, 8.0
WIDTHS = {"column": 3.25, "page": 6.75}
"""Widths in inches, for a paper with two columns."""
MIN_WIDTH, MAX_WIDTH = 2.0, 40.0
MIN_FONT, MAX_FONT = 4, 30
_MAX_MARKS = 400
"""A panel with more points is rasterized: they cannot be told apart, and pixels take fewer bytes."""
_MIN_MARKS = 50
"""Artists with fewer points stay vector graphics, even in such a panel."""


@dataclass(frozen=True)
class Style:
    """Options for the appearance of a figure; see `use_style`.

    Attributes
    ----------
    width : float or None, default None
        Width of the figure in inches; None for the width that its panels need.
    font_size : float or None, default None
        Font size in points; None for 9, or 8 if a width is given.
    title : str or None, default None
        Replaces the figure's title; empty for no title.
    """

    width: float | None = None
    font_size: float | None = None
    title: str | None = None

    @classmethod
    def make(
        cls, width: str | float | None = None, font_size: float | None = None, title: str | None = None
    ) -> Self:  # fmt: skip
        """Check the values and return a style; a width may be a name in `WIDTHS`."""
        inches = WIDTHS.get(width, width) if isinstance(width, str) else width
        try:
            inches = None if inches is None else float(inches)
        except ValueError:
            inches = math.nan
        if inches is not None and not MIN_WIDTH <= inches <= MAX_WIDTH:
            names = ", ".join(WIDTHS)
            raise EnergyAlignError(
                f"width must be {names} or a number of inches from {MIN_WIDTH:g} to {MAX_WIDTH:g}, got {width!r}."
            )
        if font_size is not None and not MIN_FONT <= font_size <= MAX_FONT:
            raise EnergyAlignError(f"font size must be from {MIN_FONT} to {MAX_FONT} points, got {font_size:g}.")
        return cls(inches, font_size, title)

    @property
    def size(self) -> float:
        """Font size in points."""
        return self.font_size or (FONT_SIZE if self.width is None else _FONT_IN_PAPER)


DEFAULT_STYLE = Style()
_STYLE: ContextVar[Style] = ContextVar("style", default=DEFAULT_STYLE)


@contextlib.contextmanager
def use_style(style: Style) -> Iterator[None]:
    """Use this style for figures that are drawn inside the context, like `matplotlib.rc_context`."""
    token = _STYLE.set(style)
    try:
        yield
    finally:
        _STYLE.reset(token)


def current_style() -> Style:
    """Return the style in use."""
    return _STYLE.get()


@contextlib.contextmanager
def _our_look() -> Iterator[None]:
    """Draw in our style inside the context, whatever matplotlibrc says.

    A matplotlibrc in the current folder may come from anyone and switch LaTeX on, which can run programs.
    """
    size = current_style().size
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**_LOOK, "font.size": size, "figure.titlesize": 1.1 * size})
        yield


@contextlib.contextmanager
def new_figure(*, width: float, height: float, title: str) -> Iterator[Figure]:
    """Yield an empty figure in our style; width and height are in inches."""
    with _our_look():
        figure = Figure(figsize=(width, height), layout="constrained", dpi=160)
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(clean(title))
        yield figure


def check_suffix(path: Path) -> None:
    """Raise if `save_figure` does not know the suffix."""
    if path.suffix.lower() not in _METADATA:
        raise EnergyAlignError(f"a figure must be a .png, .svg or .pdf file, got {path}.")


def save_figure(figure: Figure, path: Path) -> None:
    """Save as PNG, SVG or PDF, by the suffix; the same numbers give the same bytes."""
    check_suffix(path)
    suffix = path.suffix.lower()
    with _our_look(), atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=suffix[1:], metadata=_METADATA[suffix])


def page_svg(figure: Figure) -> str:
    """Return the figure as an ``<svg>`` element for the ``<img>`` of a page.

    The background is transparent, and text and axes follow the reader's light or dark mode. Large numbers of points
    or bars are rasterized; their colour is the same in both modes.
    """
    stream = io.StringIO()
    with _our_look(), _rasterize_crowds(figure):
        figure.savefig(stream, format="svg", metadata=_METADATA[".svg"], transparent=True)
    text = stream.getvalue()
    opening = text.index("<svg ")
    end = text.index(">", opening) + 1
    body = text[end:].replace(INK.lower(), "currentColor").replace(BLUE.lower(), "var(--blue)")
    light, dark = (f"svg{{color:{ink};--blue:{blue}}}" for ink, blue in ((INK, BLUE), (_ON_DARK[INK], _ON_DARK[BLUE])))
    return f"{text[opening:end]}\n <style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>{body}"


def deviation_over_seeds(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the standard deviation of each column; None for a single seed."""
    return np.asarray(values.std(axis=0, ddof=1)) if len(values) > 1 else None


def mean_and_deviation(groups: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return mean and standard deviation of each group of seeds; no deviations if every group has one seed."""
    means = np.array([float(seeds.mean()) for seeds in groups])
    deviations = np.array([float(seeds.std(ddof=1)) if len(seeds) > 1 else np.nan for seeds in groups])
    return means, None if np.isnan(deviations).all() else deviations


@contextlib.contextmanager
def _rasterize_crowds(figure: Figure) -> Iterator[None]:
    """Rasterize crowded artists inside the context, at the figure's resolution; never text or axes."""
    crowds = [artist for axes in figure.axes for artist in _crowd(axes)]
    for artist in crowds:
        artist.set_rasterized(True)
    try:
        yield
    finally:
        for artist in crowds:
            artist.set_rasterized(False)


def _crowd(axes: Axes) -> list[Artist]:
    sets: list[list[Artist]] = [[artist] for artist in (*axes.lines, *axes.collections)]
    sets.append(list(axes.patches))  # all bars together
    marks = [sum(map(_marks, artists)) for artists in sets]
    if sum(marks) <= _MAX_MARKS:
        return []
    return [artist for artists, number in zip(sets, marks, strict=True) if number > _MIN_MARKS for artist in artists]


def _marks(artist: Artist) -> int:
    """Estimate what an artist adds to an SVG file: its number of points, or 1 for a bar."""
    if isinstance(artist, Line2D):
        return np.size(artist.get_xdata())
    paths = artist.get_paths() if isinstance(artist, Collection) else []
    if isinstance(artist, StepPatch):
        paths = [artist.get_path()]
    return sum(len(np.asarray(path.vertices)) for path in paths) if paths else 1
