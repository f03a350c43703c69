"""Tables as CSV in long form: a line for each number, or for each seed."""

from __future__ import annotations

import csv
import io

from energyalign.report.tables.model import Cell, Column, PaperTable, one_line

COLUMNS = ("method", "source", "group", "column", "mean", "deviation", "seeds", "best", "off_paper")
_FORMULA = ("=", "+", "-", "@")


def to_csv(table: PaperTable) -> str:
    """Return the table as CSV, with empty fields for missing numbers.

    Numbers have four decimals, or four significant digits in columns such as p that print significant digits.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if table.is_per_seed:
        writer.writerow(["method", "seed", *(_name(column.full_title) for column in table.columns)])
        writer.writerows(
            [_name(line.method), line.seed, *map(_mean, line.cells, table.columns)] for line in table.lines
        )
        return text.getvalue()
    writer.writerow(COLUMNS)
    for line in table.lines:
        for cell, column in zip(line.cells, table.columns, strict=True):
            numbers = (_mean(cell, column), _plain(cell.deviation), "" if cell.n is None else cell.n)
            names = map(_name, (line.method, line.source or column.source, column.group, column.title))
            writer.writerow([*names, *numbers, cell.best, cell.off_paper])
    return text.getvalue()


def _mean(cell: Cell, column: Column) -> str:
    if cell.mean is not None and column.form.endswith("g"):
        return repr(float(f"{cell.mean:.4g}"))
    return _plain(cell.mean)


def _plain(value: float | None) -> str:
    if value is None:
        return ""
    return repr(value if isinstance(value, int) else round(float(value), 4) + 0.0)


def _name(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    name = one_line(text)
    return f"'{name}" if name.lstrip().startswith(_FORMULA) or text.startswith(("\t", "\r")) else name
