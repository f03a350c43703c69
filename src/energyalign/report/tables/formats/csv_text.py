"""Tables as comma-separated values, a line for each number: for pandas and its like."""

from __future__ import annotations

import csv
import io

from energyalign.report.tables.model import OURS, PaperTable

COLUMNS = ("method", "source", "group", "column", "mean", "deviation", "seeds", "best", "off_paper")


def to_csv(table: PaperTable) -> str:
    """Numbers are plain, to four digits, and empty where they are missing; nothing is in two columns at once."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in table.lines:
        for cell, column in zip(line.cells, table.columns, strict=True):
            numbers = (_plain(cell.mean), _plain(cell.deviation), "" if cell.n is None else cell.n)
            source = line.source or OURS
            writer.writerow([line.method, source, column.group, column.title, *numbers, cell.best, cell.off_paper])
    return text.getvalue()


def _plain(value: float | None) -> str:
    return "" if value is None else repr(round(value, 4) + 0.0)
