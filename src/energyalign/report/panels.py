"""Layout of a figure's panels: size, titles, axes, and one legend below them."""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from energyalign.report.drawing import FONT_SIZE, GRID, current_style, new_figure

_LETTERS_PER_INCH = 12.5
_MIN_WIDTH = 5.6
"""Of a figure, in inches."""
_MIN_SHARE = 0.6
"""Minimum share of a panel's width; below it, rows get fewer panels."""
_LINE = 1.5
"""Height of a line of text, in font sizes."""
_HANDLE = 0.55
"""Width of a legend handle, in inches."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_MARGIN = 0.02
"""Share of a percentage axis above 100, so that a point there is not cut."""


@contextlib.contextmanager
def panels(
    n_panels: int, *, what: str, about: str, columns: int = 3, width: float = 2.7, height: float = 2.3,
    ylabel: str = "", note: str = "", sharey: bool | Literal["row"] = False,
) -> Iterator[tuple[Figure, list[Axes]]]:  # fmt: skip
    """Yield a figure with its panels; when the context ends, it gets one legend for all of them.

    Parameters
    ----------
    n_panels : int
    what, about : str
        The two lines of the title: what is shown, and of which runs. `Style.title` replaces both.
    columns : int, default 3
        Panels per row, if the width of the figure allows.
    width, height : float, default 2.7 and 2.3
        Size of a panel in inches, with text of 9 points.
    ylabel : str, default ""
        Label of the leftmost panels.
    note : str, default ""
        Text below the panels.
    sharey : bool or str, default False
        See `Figure.subplots`.
    """
    style, scale = current_style(), text_scale()
    columns = min(columns, n_panels)
    across = style.width or scale * max(_MIN_WIDTH, columns * width)
    columns = max(1, min(columns, int(across / (_MIN_SHARE * scale * width))))
    rows = math.ceil(n_panels / columns)
    down = rows * height * scale * min(1.0, max(0.85, across / columns / (scale * width)))
    after_commas = about.replace(" ", _NO_BREAK).replace(f",{_NO_BREAK}", ", ")  # where the second line may be wrapped
    title = _wrapped(f"{what}\n{after_commas}" if style.title is None else style.title, across)
    title = title.replace(_NO_BREAK, " ")
    with new_figure(width=across, height=down, title=title) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
        for unused in grid.flat[n_panels:]:
            unused.remove()
        drawn = list(grid.flat[:n_panels])
        for panel in drawn:
            size_ticks(panel)
        yield figure, drawn
        for panel in first_of_rows(drawn) if ylabel else []:
            panel.set_ylabel(ylabel)
        for panel in drawn:
            panel.set_xlabel(_wrapped(panel.get_xlabel(), 0.85 * across / columns))
        lines = _explain(figure, drawn, _wrapped(note, 1.2 * across)) + _title_lines(drawn, columns)
        lines += 1.2 * len(title.splitlines())
        figure.set_figheight(down + 0.1 + lines * _LINE * style.size / 72)


def text_scale() -> float:
    """Return the font size relative to the default."""
    return current_style().size / FONT_SIZE


def size_ticks(axes: Axes) -> None:
    """Set the size of tick labels now: matplotlib creates them on saving, with the settings at that time."""
    axes.tick_params(which="both", labelsize=current_style().size)


def title_panel(axes: Axes, *parts: str) -> None:
    """Set a title with a line for each non-empty part, wrapped to the width of the panel."""
    spec = axes.get_subplotspec()
    width = axes.get_figure(root=True).get_figwidth() / spec.get_gridspec().ncols  # type: ignore[union-attr]
    axes.set_title("\n".join(_wrapped(part, width) for part in parts if part))


def grid_lines(axes: Axes, which: str = "y") -> None:
    """Draw thin lines behind the data, and remove the right spine."""
    axes.spines["right"].set_visible(False)
    axes.grid(axis=which, color=GRID, linewidth=0.6)  # type: ignore[arg-type]


def end_at_100(axes: Sequence[Axes]) -> None:
    """Limit percentage axes to 0 and 100; call it after drawing all panels."""
    for panel in axes:
        low, high = panel.get_ylim()
        low = max(low, 0.0)
        if (low, high) != panel.get_ylim() or high > 100:
            panel.set_ylim(low, min(high, 100 + _MARGIN * (100 - low)))


def first_of_rows(axes: Sequence[Axes]) -> list[Axes]:
    """Return the leftmost panels."""
    return [panel for panel in axes if panel.get_subplotspec().is_first_col()]  # type: ignore[union-attr]


def plain_log(axis: Any) -> None:
    """Make an axis logarithmic, with plain numbers instead of powers: 1, 10, 100."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    # Two decades or less need ticks between the powers of ten.
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _explain(figure: Figure, axes: Sequence[Axes], note: str) -> float:
    """Add a legend for all panels below them, with the note, and return its height in lines of text."""
    by_name: dict[str, Any] = {}
    for panel in axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            by_name.setdefault(name, handle)
    note_lines = 0.9 * len(note.splitlines())
    if by_name:
        names = [_wrapped(name, figure.get_figwidth() - 2 * _HANDLE * text_scale()) for name in by_name]
        columns = _legend_columns(names, figure.get_figwidth() / text_scale())
        figure.legend(
            by_name.values(), names, loc="outside lower center", ncols=columns, title=note, title_fontsize="small"
        )
        lines = [1 + name.count("\n") for name in names]
        return max(map(sum, np.array_split(lines, columns))) + note_lines
    if note:
        figure.supxlabel(note, fontsize="small")
    return note_lines


def _legend_columns(names: Sequence[str], room: float) -> int:
    """Return as many columns as fit into `room` inches, or fewer that need no more rows; they are filled one by one."""
    for columns in range(len(names), 1, -1):
        longest = [max(map(len, part)) for part in np.array_split(names, columns)]
        if sum(longest) / _LETTERS_PER_INCH + columns * _HANDLE <= room:
            return math.ceil(len(names) / math.ceil(len(names) / columns))
    return 1


def _title_lines(axes: Sequence[Axes], columns: int) -> int:
    """Return the number of title lines over all rows, not counting the first of each row."""
    lines = [panel.get_title().count("\n") for panel in axes]
    return sum(max(lines[first : first + columns]) for first in range(0, len(lines), columns))


def _wrapped(text: str, inches: float) -> str:
    width = int(_LETTERS_PER_INCH * inches / text_scale())
    return "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, width) or [""])
