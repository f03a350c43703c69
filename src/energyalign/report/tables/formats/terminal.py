"""Tables for a terminal, and as plain text."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from energyalign.report.tables.best import about_best
from energyalign.report.tables.model import Cell, Column, Line, PaperTable, one_line

MISSING = "-"
PLAIN_WIDTH = 100


class _Layout(NamedTuple):
    """Whether deviations are below their means instead of beside them, and the length at which names are folded."""

    deviations_below: bool
    max_name: int


_LAYOUTS = (_Layout(False, 26), _Layout(True, 26), _Layout(True, 14))


def to_terminal(table: PaperTable) -> str:
    """Return plain text of at most 100 columns, with an asterisk for bold."""
    text = io.StringIO()
    show(table, Console(file=text, width=PLAIN_WIDTH, color_system=None, highlight=False, legacy_windows=False))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def show(table: PaperTable, console: Console) -> None:
    """Print the table, split into stacked parts if it is wider than the console."""
    bold = console.color_system is not None
    console.print(Text(one_line(table.title), style="bold"))

    def width_of(columns: Sequence[int], layout: _Layout) -> int:
        return _width(_part(table, columns, layout, bold=bold))

    groups = [("", list(range(len(table.columns))))]
    if table.stacked and (len(table.groups) == 1 or width_of(groups[0][1], _LAYOUTS[0]) > console.width):
        groups = table.groups
    fitting = (lay for lay in _LAYOUTS if all(width_of(columns, lay) <= console.width for _, columns in groups))
    layout = next(fitting, _LAYOUTS[1])
    for name, columns in groups:
        rest = columns
        while rest:
            n = next((n for n in range(len(rest), 1, -1) if width_of(rest[:n], layout) <= console.width), 1)
            if name:
                console.print(Text(f"\n{one_line(name)}", style="italic"))
            console.print(_part(table, rest[:n], layout, bold=bold))
            rest = rest[n:]
    rule = about_best(table)
    if rule:
        console.print(Text(f"{'Bold:' if bold else '*'} {rule}"))
    for note in table.notes:
        console.print(Text(one_line(note)))


def _width(part: Table) -> int:
    boundless = Console(width=10_000, file=io.StringIO())
    return Measurement.get(boundless, boundless.options, part).maximum


def _part(table: PaperTable, columns: Sequence[int], layout: _Layout, *, bold: bool) -> Table:
    """Return these columns, with the names of the lines before them."""
    below = layout.deviations_below
    part = Table(box=SIMPLE_HEAD, padding=0 if below else (0, 1, 0, 0), pad_edge=False)
    part.add_column(Text(one_line(table.corner)), overflow="fold", max_width=layout.max_name)
    if table.has_sources:
        part.add_column("", no_wrap=True)
    for head in _heads(table, columns, narrow=below):
        part.add_column(Text(head), justify="right", overflow="fold")
    for name, line in table.named_lines:
        # Text, not str, which Rich would parse as markup: a method may be called [red].
        names = [Text(one_line(name))]
        if table.has_sources:
            names.append(Text(line.source_and_seeds + line.mark))
        part.add_row(*names, *(_cell(line.cells[k], line, table.columns[k], bold=bold, below=below) for k in columns))
    return part


def _heads(table: PaperTable, columns: Sequence[int], *, narrow: bool) -> list[str]:
    """Return the title of each column, one word per line if narrow, with its group above where the group begins."""
    titles = [one_line(table.columns[k].title) for k in columns]
    if narrow:
        titles = [re.sub("(?<!-) (?!-)", "\n", title) for title in titles]  # "B - A" stays in one line
    groups = [one_line(table.columns[k].group) for k in columns]
    if len(set(groups)) == 1 and (table.stacked or not groups[0]):
        return titles
    begins = [index == 0 or groups[index - 1] != group for index, group in enumerate(groups)]
    return [f"{g if begin else ''}\n{title}" for g, begin, title in zip(groups, begins, titles, strict=True)]


def _cell(cell: Cell, line: Line, column: Column, *, bold: bool, below: bool) -> Text:
    if cell.mean is None:
        return Text(MISSING)
    mark = line.mark_of(cell) + ("*" if cell.best and not bold else "")
    text = Text(mark).append(line.number(cell, column), style="bold" if cell.best else "")
    return text.append(f"\n±{cell.spread}" if below else f" ± {cell.spread}") if cell.spread else text
