"""Which numbers of a table are printed in bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from energyalign.report.tables.model import DIFFERENCE, Column, Line


def with_best(lines: Sequence[Line], columns: Sequence[Column]) -> tuple[Line, ...]:
    """The lines with the best number of each column marked, among lines of the same source."""
    marked = [list(line.cells) for line in lines]
    for source in {line.source for line in lines} - {DIFFERENCE}:
        same = [k for k, line in enumerate(lines) if line.source == source]
        for index, column in enumerate(columns):
            if column.better:
                means = [lines[k].cells[index].mean for k in same]
                for k, best in zip(same, are_best(means, column), strict=True):
                    marked[k][index] = replace(marked[k][index], best=best)
    return tuple(replace(line, cells=tuple(cells)) for line, cells in zip(lines, marked, strict=True))


def with_best_of_line(line: Line) -> Line:
    """The line with its best number marked: its columns are of one measure, of which more is better."""
    best = are_best([cell.mean for cell in line.cells], Column(""))
    return replace(line, cells=tuple(replace(cell, best=it) for cell, it in zip(line.cells, best, strict=True)))


def are_best(means: Sequence[float | None], column: Column) -> list[bool]:
    """Which numbers are the best, as a column has it.

    Numbers that are printed alike are equally good. A number that stands alone is not the best of anything.
    """
    known = [mean for mean in means if mean is not None]
    if len(known) < 2:
        return [False] * len(means)
    best = format(max(known) if column.better == "higher" else min(known), column.form)
    return [mean is not None and format(mean, column.form) == best for mean in means]
