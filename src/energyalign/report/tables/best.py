"""Bold numbers of a table: the best, and all numbers that are not clearly worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """Return which numbers are the best, or not clearly worse, if others have the same seeds.

    Only numbers over the same seeds as the best are marked. A number is not clearly worse if it prints the same, or if
    the 95 % interval of the paired t-test over seeds contains 0, which needs at least two seeds. If several numbers are
    the best, a number must not be clearly worse than any of them.
    """
    sign = -1 if column.better == "lower" else 1
    scores = {k: sign * cell.mean for k, cell in enumerate(cells) if column.better and cell.mean is not None}
    groups: dict[tuple[int, ...], list[int]] = {}
    for k in scores:
        groups.setdefault((cells[k].n or 0, *sorted(cells[k].by_seed)), []).append(k)
    comparable = {seeds: members for seeds, members in groups.items() if len(members) > 1}
    if not comparable:
        return [False] * len(cells)
    # Among equally good groups, take the one with more seeds, so that the order of lines does not matter.
    members = comparable[max(comparable, key=lambda seeds: (max(scores[k] for k in comparable[seeds]), seeds))]
    highest = max(scores[k] for k in members)
    best = [cells[k] for k in members if math.isclose(scores[k], highest, rel_tol=1e-12)]
    return [k in members and all(_is_like(cell, one, column) for one in best) for k, cell in enumerate(cells)]


def about_best(table: PaperTable) -> str:
    """Say what bold means in a table; empty if nothing is bold."""
    marked = [cell for line in table.lines for cell in line.cells if cell.best]
    if not marked:
        return ""
    rule = f"best of its {table.best_of}"
    most = max(len(cell.by_seed) for cell in marked)
    if most < 2:
        return f"{rule}."
    rule = f"{rule}, or not clearly worse than the best (paired t-test over the same seeds, {100 * LEVEL:.0f} %)."
    return f"{rule} Two seeds are weak evidence." if most == 2 else rule


def _is_like(cell: Cell, best: Cell, column: Column) -> bool:
    if format(cell.mean, column.form) == format(best.mean, column.form):
        return True
    if len(cell.by_seed) < 2:
        return False
    gain = paired_t([value - best.by_seed[seed] for seed, value in cell.by_seed.items()])
    return gain.low <= 0 <= gain.high
