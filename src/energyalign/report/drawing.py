"""How figures look, and how they reach a file or a page."""

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
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError

# From the colour-blind safe palette of Okabe and Ito, its orange darker: 3:1 and more on a light and a dark page.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE = "#0072B2", "#AD7700", "#009E73", "#D55E00", "#CC79A7"
VIOLET = "#7A68C8"
"""Not of that palette: for a sixth line, which has a marker and dashes of its own."""
GREY, GRID = "#7A7A7A", "#80808059"
PALE_BARS: dict[str, Any] = {"facecolor": GRID, "edgecolor": GREY, "linewidth": 0.8}
"""Bars that something is drawn over: it is seen on their pale inside, and they by their outline."""
INK = "#1A1A1B"
"""Text, axes and ticks: nothing else has this colour, so that it can be exchanged on a dark page."""
_ON_DARK = {INK: "#E8E8E8", BLUE: "#3D9BDC"}
"""What takes the place of colours that thin lines and text would be hard to read in."""

_LOOK: dict[Any, Any] = {
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,  # 99.2, not 0.2 below "+99"
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
FONT_SIZE, _FONT_IN_PAPER = 9.0, 8.0
WIDTHS = {"column": 3.25, "page": 6.75}
"""Of a paper with two columns, in inches."""
MIN_WIDTH, MAX_WIDTH = 2.0, 40.0
MIN_FONT, MAX_FONT = 4, 30
_MAX_MARKS = 400
"""Of a panel: more cannot be told apart, and cost more bytes than its pixels."""
_FEW_MARKS = 50
"""Lines and bands of a crowded panel that are no crowd themselves stay as sharp as they are."""


@dataclass(frozen=True)
class Style:
    """What the user of a figure chooses about its looks; see `use_style`.

    Attributes
    ----------
    width : float or None
        Of the figure in inches; None for what its panels need.
    font_size : float or None
        In points; None for 9, or 8 if a width is given.
    title : str or None
        Instead of the figure's own; empty for none, as in a paper, whose captions say it.
    """

    width: float | None = None
    font_size: float | None = None
    title: str | None = None

    @classmethod
    def make(
        cls, width: str | float | None = None, font_size: float | None = None, title: str | None = None
    ) -> Self:  # fmt: skip
        """The style of these values, checked; a width may be the name of one in `WIDTHS`."""
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
        """Of the text, in points."""
        return self.font_size or (FONT_SIZE if self.width is None else _FONT_IN_PAPER)


DEFAULT_STYLE = Style()
_STYLE: ContextVar[Style] = ContextVar("style", default=DEFAULT_STYLE)


@contextlib.contextmanager
def use_style(style: Style) -> Iterator[None]:
    """Draw figures in this style inside the context, as `matplotlib.rc_context` does with its settings."""
    token = _STYLE.set(style)
    try:
        yield
    finally:
        _STYLE.reset(token)


def current_style() -> Style:
    """The style that figures are drawn in now."""
    return _STYLE.get()


@contextlib.contextmanager
def _our_look() -> Iterator[None]:
    """Whatever a matplotlibrc says: the one in the current folder may be anybody's, and LaTeX can run programs."""
    size = current_style().size
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**_LOOK, "font.size": size, "figure.titlesize": 1.1 * size})
        yield


@contextlib.contextmanager
def new_figure(*, width: float, height: float, title: str) -> Iterator[Figure]:
    """An empty figure in our look, in inches, to be drawn on inside the context; an empty title takes no room."""
    with _our_look():
        figure = Figure(figsize=(width, height), layout="constrained", dpi=160)
        FigureCanvasAgg(figure)
        if title:
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
    with _our_look(), atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=suffix[1:], metadata=_METADATA[suffix])


def page_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element for the ``<img>`` of a page, light or dark as the reader has it.

    The background is transparent, and text and axes have the colour that can be read on it. Letters are drawn as
    shapes: in an ``<img>`` they could not be selected anyway, and so they need no room that was not reserved. Crowds of
    points or bars are pixels, whose colour is the same on a light and a dark page.
    """
    stream = io.StringIO()
    with _our_look(), crowds_as_pixels(figure):
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


@contextlib.contextmanager
def crowds_as_pixels(figure: Figure) -> Iterator[None]:
    """Inside, what panels have too much of is drawn as pixels, in the figure's resolution; text and axes never are."""
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
    sets.append(list(axes.patches))  # bars are many artists, and one crowd
    marks = [sum(map(_marks, artists)) for artists in sets]
    if sum(marks) <= _MAX_MARKS:
        return []
    return [artist for artists, number in zip(sets, marks, strict=True) if number > _FEW_MARKS for artist in artists]


def _marks(artist: Artist) -> int:
    """About how much of an SVG file it takes: its points, or one for a bar."""
    if isinstance(artist, Line2D):
        return np.size(artist.get_xdata())
    if isinstance(artist, Collection):
        return sum(_points(path) for path in artist.get_paths())
    return _points(artist.get_path()) if isinstance(artist, StepPatch) else 1


def _points(path: Outline) -> int:
    return int(np.shape(path.vertices)[0])
