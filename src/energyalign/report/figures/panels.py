"""Panels in rows, under a title that says what was run; legends and notes below them."""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from energyalign.report.drawing import GRID, new_figure

_LETTERS_PER_INCH = 12.5
_NARROWEST = 5.6
_HANDLE = 0.55
"""What a legend needs beside a name, in inches."""
_SMALL, _SMALLER = 7, 1.3
"""The font of notes, and how many more letters of it there are to an inch."""


@contextlib.contextmanager
def panels(
    n_panels: int, *, what: str, about: str, columns: int = 3, width: float = 2.7, height: float = 2.3,
    **shared: Any,
) -> Iterator[tuple[Figure, list[Axes]]]:  # fmt: skip
    """A figure with so many panels, in inches each.

    Parameters
    ----------
    what, about : str
        The two parts of the title: what is shown, and of which runs.
    columns : int
        As many stand beside each other.
    **shared
        See `Figure.subplots`.
    """
    columns = min(columns, n_panels)
    rows = math.ceil(n_panels / columns)
    across = max(_NARROWEST, columns * width)
    title = _wrapped(f"{what}\n{about}", across)
    down = rows * height + 0.6 + 0.15 * title.count("\n")
    with new_figure(width=across, height=down, title=title) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, **shared)
        for unused in grid.flat[n_panels:]:
            unused.remove()
        yield figure, list(grid.flat[:n_panels])


def title_panel(axes: Axes, *parts: str) -> None:
    """A title of as many lines as there are parts that say something, and more if they are long."""
    spec = axes.get_subplotspec()
    width = axes.get_figure(root=True).get_figwidth() / spec.get_gridspec().ncols  # type: ignore[union-attr]
    axes.set_title("\n".join(_wrapped(part, width) for part in parts if part))


def grid_lines(axes: Axes, which: str = "y") -> None:
    """Thin lines behind the data, and no right spine."""
    axes.spines["right"].set_visible(False)
    axes.grid(axis=which, color=GRID, linewidth=0.6)  # type: ignore[arg-type]


def note_below(figure: Figure, note: str) -> None:
    """What else has to be said, in a figure without a legend."""
    if note:
        figure.supxlabel(_wrapped(note, _SMALLER * figure.get_figwidth()), fontsize=_SMALL)


def legend_below(figure: Figure, axes: Sequence[Axes], *, note: str = "") -> None:
    """One legend for all panels, each name once, where no data are; and what else has to be said."""
    by_name: dict[str, Any] = {}
    for panel in axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            by_name.setdefault(name, handle)
    longest = max(map(len, by_name)) / _LETTERS_PER_INCH + _HANDLE
    columns = max(1, min(len(by_name), int(figure.get_figwidth() / longest)))
    figure.legend(
        by_name.values(), by_name.keys(), loc="outside lower center", ncols=columns,
        title=_wrapped(note, _SMALLER * figure.get_figwidth()), title_fontsize=_SMALL,
    )  # fmt: skip


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
