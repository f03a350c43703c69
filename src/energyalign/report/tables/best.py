"""Which numbers of a table are printed in bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from energyalign.report.tables.model import DIFFERENCE, Cell, Column, Line


def with_best(lines: Sequence[Line], columns: Sequence[Column]) -> tuple[Line, ...]:
    """The lines with the best number of each column marked, among lines of the same source.

    Numbers that are printed alike are equally good. A number that stands alone is not the best of anything.
    """
    best: dict[tuple[str, int], str] = {}
    for source in {line.source for line in lines} - {DIFFERENCE}:
        same = [line for line in lines if line.source == source]
        for index, column in enumerate(columns):
            known = [mean for line in same if (mean := line.cells[index].mean) is not None]
            if column.better and len(known) > 1:
                best[source, index] = format(max(known) if column.better == "higher" else min(known), column.form)

    def marked(line: Line, index: int, cell: Cell) -> Cell:
        wanted = best.get((line.source, index))
        return replace(cell, best=cell.mean is not None and format(cell.mean, columns[index].form) == wanted)

    return tuple(
        replace(line, cells=tuple(marked(line, index, cell) for index, cell in enumerate(line.cells))) for line in lines
    )
