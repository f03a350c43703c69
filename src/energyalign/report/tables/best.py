"""Bold numbers of a table: the best, and those that are not clearly worse."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from energyalign.report.paired import LEVEL, paired_t
from energyalign.report.tables.model import DIFFERENCE, Cell, Column, PaperTable


def with_best(table: PaperTable) -> PaperTable:
    """Return the table with its best numbers marked, by column or by line as `best_of` says."""
    columns = range(len(table.columns))
    if table.best_of == "line":
        shared = [([k], members) for k in range(len(table.lines)) for _, members in table.groups]
    else:
        sources = dict.fromkeys(line.source for line in table.lines)
        same_source = [[k for k, line in enumerate(table.lines) if line.source == each] for each in sources]
        shared = [(lines, [index]) for lines in same_source for index in columns]
    marked = [[replace(cell, best=False) for cell in line.cells] for line in table.lines]
    for lines, indices in shared:
        places = [(k, index) for k in lines for index in indices if table.lines[k].source != DIFFERENCE]
        best = are_best([marked[k][index] for k, index in places], table.columns[indices[0]])
        for (k, index), is_best in zip(places, best, strict=True):
            marked[k][index] = replace(marked[k][index], best=is_best)
    with_marks = (replace(line, cells=tuple(cells)) for line, cells in zip(table.lines, marked, strict=True))
    return replace(table, lines=tuple(with_marks))


def are_best(cells: Sequence[Cell], column: Column) -> list[bool]:
    """Return which numbers are the best among those of the same seeds, or not clearly worse.

    Numbers are marked from the best down to the first that is clearly worse. A number is not clearly worse if it
    prints the same, or if the 95 % interval of the paired t-test over seeds contains 0; that needs the numbers of at
    least two seeds. A number without others to compare with is not marked.
    """
    groups: dict[Hashable, list[int]] = {}
    for k, cell in enumerate(cells):
        if column.better and cell.mean is not None:
            groups.setdefault((cell.n, frozenset(cell.by_seed)), []).append(k)
    marks = [False] * len(cells)
    for members in groups.values():
        if len(members) > 1:
            order = sorted(members, key=lambda k: cells[k].mean or 0.0, reverse=column.better == "higher")
            for k in order:
                if not _is_like(cells[k], cells[order[0]], column):
                    break
                marks[k] = True
    return marks


def about_best(table: PaperTable) -> str:
    """Say what bold means in a table; empty if nothing is bold."""
    marked = [cell for line in table.lines for cell in line.cells if cell.best]
    if not marked:
        return ""
    rule = f"best of its {table.best_of}"
    if all(len(cell.by_seed) < 2 for cell in marked):
        return f"{rule}."
    return (
        f"{rule} among numbers of the same seeds, and those below it down to the first that is clearly worse (the "
        f"{LEVEL:.0%} interval of the paired t-test over seeds does not contain 0). With one seed, only the best."
    ).replace("%", " %")


def _is_like(cell: Cell, best: Cell, column: Column) -> bool:
    if format(cell.mean, column.form) == format(best.mean, column.form):
        return True
    if len(cell.by_seed) < 2:
        return False
    gain = paired_t([value - best.by_seed[seed] for seed, value in cell.by_seed.items()])
    return gain.low <= 0 <= gain.high
