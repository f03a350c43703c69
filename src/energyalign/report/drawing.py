"""How figures look, how their panels are laid out, and how they reach a file or a page."""

from __future__ import annotations

import contextlib
import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

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
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError

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
_MAX_MARKS = 400
"""Of a panel: more cannot be told apart, and cost more bytes than its pixels."""
_FEW_MARKS = 50
"""Lines and bands of a crowded panel that are no crowd themselves stay as sharp as they are."""
_LETTERS_PER_INCH = 12.5
_NARROWEST = 5.6
_HANDLE = 0.55
"""What a legend needs beside a name, in inches."""
_SMALL, _SMALLER = 7, 1.3
"""The font of notes, and how many more letters of it there are to an inch."""


@contextlib.contextmanager
def _our_look() -> Iterator[None]:
    """Whatever a matplotlibrc says: the one in the current folder may be anybody's, and LaTeX can run programs."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOK)
        yield


@contextlib.contextmanager
def new_figure(*, width: float, height: float, title: str) -> Iterator[Figure]:
    """An empty figure in our look, in inches, to be drawn on inside the context."""
    with _our_look():
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


@contextlib.contextmanager
def panels(
    n_panels: int, *, what: str, about: str, columns: int = 3, width: float = 2.7, height: float = 2.3,
    ylabel: str = "", note: str = "", sharey: bool | Literal["row"] = False,
) -> Iterator[tuple[Figure, list[Axes]]]:  # fmt: skip
    """A figure with so many panels, in inches each; what is drawn inside the context gets one legend below it.

    Parameters
    ----------
    what, about : str
        The two parts of the title: what is shown, and of which runs.
    columns : int
        As many stand beside each other.
    ylabel : str
        Of the panels to the left.
    note : str
        What else has to be said, below the panels.
    sharey : bool or str
        See `Figure.subplots`.
    """
    columns = min(columns, n_panels)
    rows = math.ceil(n_panels / columns)
    across = max(_NARROWEST, columns * width)
    title = _wrapped(f"{what}\n{about}", across)
    down = rows * height + 0.6 + 0.15 * title.count("\n")
    with new_figure(width=across, height=down, title=title) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
        for unused in grid.flat[n_panels:]:
            unused.remove()
        drawn = list(grid.flat[:n_panels])
        yield figure, drawn
        for panel in first_of_rows(drawn) if ylabel else []:
            panel.set_ylabel(ylabel)
        _explain(figure, drawn, _wrapped(note, _SMALLER * across))


def title_panel(axes: Axes, *parts: str) -> None:
    """A title of as many lines as there are parts that say something, and more if they are long."""
    spec = axes.get_subplotspec()
    width = axes.get_figure(root=True).get_figwidth() / spec.get_gridspec().ncols  # type: ignore[union-attr]
    axes.set_title("\n".join(_wrapped(part, width) for part in parts if part))


def grid_lines(axes: Axes, which: str = "y") -> None:
    """Thin lines behind the data, and no right spine."""
    axes.spines["right"].set_visible(False)
    axes.grid(axis=which, color=GRID, linewidth=0.6)  # type: ignore[arg-type]


def _explain(figure: Figure, axes: Sequence[Axes], note: str) -> None:
    """One legend for all panels, each name once, where no data are, with the note; or the note alone."""
    by_name: dict[str, Any] = {}
    for panel in axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            by_name.setdefault(name, handle)
    if by_name:
        longest = max(map(len, by_name)) / _LETTERS_PER_INCH + _HANDLE
        columns = max(1, min(len(by_name), int(figure.get_figwidth() / longest)))
        figure.legend(
            by_name.values(), by_name.keys(), loc="outside lower center", ncols=columns, title=note,
            title_fontsize=_SMALL,
        )  # fmt: skip
    elif note:
        figure.supxlabel(note, fontsize=_SMALL)


def first_of_rows(axes: Sequence[Axes]) -> list[Axes]:
    """The panels that stand to the left."""
    return [panel for panel in axes if panel.get_subplotspec().is_first_col()]  # type: ignore[union-attr]


def plain_log(axis: Any) -> None:
    """A logarithmic axis with numbers as they are read: 1, 10, 100, not powers."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    # Between powers of ten too, if there are not enough of them to read the scale by.
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _wrapped(text: str, inches: float) -> str:
    width = int(_LETTERS_PER_INCH * inches)
    return "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, width) or [""])
