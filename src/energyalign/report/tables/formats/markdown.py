"""Tables as GitHub Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from energyalign.report.tables.best import about_best
from energyalign.report.tables.model import Cell, Column, Line, PaperTable, one_line

MISSING = "-"


def to_markdown(table: PaperTable) -> str:
    """Return title, table and notes, separated by blank lines."""
    names = [escaped(table.corner), *([""] if table.has_sources else [])]
    heads = [escaped(column.full_title) for column in table.columns]
    rows = [names + heads, [":--"] * len(names) + ["--:"] * len(heads)]
    for name, line in table.named_lines:
        row = [escaped(name)]
        if table.has_sources:
            row.append(escaped(line.source_and_seeds) + line.mark)
        rows.append(row + [_cell(cell, line, column) for cell, column in zip(line.cells, table.columns, strict=True)])
    notes = [f"**Bold**: {rule}" for rule in [about_best(table)] if rule] + [*map(escaped, table.notes)]
    return "\n\n".join([f"**{escaped(table.title)}**", "\n".join(map(_row, rows)), *notes]) + "\n"


def escaped(text: str) -> str:
    """Escape characters that would end a cell or be taken for markup."""
    return re.sub(r"([\\`*_|<>\[\]~&])", r"\\\1", one_line(text))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell, line: Line, column: Column) -> str:
    if cell.mean is None:
        return MISSING
    number = line.number(cell, column)
    number = f"**{number}**" if cell.best else number
    return number + (f" ± {cell.spread}" if cell.spread else "") + line.mark_of(cell)
