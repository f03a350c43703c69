"""Join tables: cells beside each other, seeds below each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from energyalign.report.tables.model import SEEDS, Cell, Column, Line, PaperTable


def join_columns(table: PaperTable, other: PaperTable) -> PaperTable:
    """Add the columns of another table with the same lines."""
    return _join([table, other])


def join_cells(tables: Mapping[str, PaperTable]) -> PaperTable:
    """Join the tables of several cells, with a group of columns for each."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    joined = _join([_with_group(table, name) for name, table in tables.items()])
    titles = {table.title.replace(name, ", ".join(tables)) for name, table in tables.items()}
    title = titles.pop() if len(titles) == 1 else "; ".join(table.title for table in tables.values())
    every = [note for table in tables.values() for note in table.notes]
    notes = {note: f"{name}: {note}" for name, table in tables.items() for note in table.notes}
    unique = tuple(named if every.count(note) == 1 else note for note, named in notes.items())
    return replace(joined, title=title, notes=unique, stacked=True)


def join_seeds(tables: Mapping[int, PaperTable]) -> PaperTable:
    """Join the tables of single seeds, with a line for each method and seed."""
    joined = _join([_with_seed(table, seed) for seed, table in tables.items()])
    methods = list(dict.fromkeys(line.method for line in joined.lines))
    return replace(joined, lines=tuple(sorted(joined.lines, key=lambda line: methods.index(line.method))))


def _with_group(table: PaperTable, name: str) -> PaperTable:
    groups = (", ".join(filter(None, (name, column.group))) for column in table.columns)
    columns = tuple(replace(column, group=group) for column, group in zip(table.columns, groups, strict=True))
    return replace(table, columns=columns)


def _with_seed(table: PaperTable, seed: int) -> PaperTable:
    """Name the seed of each line, and drop the number of seeds and the marks of best numbers."""
    kept = [k for k, column in enumerate(table.columns) if column != SEEDS]
    columns = tuple(replace(table.columns[k], better="") for k in kept)
    lines = (Line(line.method, f"seed {seed}", tuple(line.cells[k] for k in kept), seed) for line in table.lines)
    return replace(table, columns=columns, lines=tuple(lines))


def _join(tables: Sequence[PaperTable]) -> PaperTable:
    """Return a table with the lines and columns of all tables; numbers that no table has are missing."""
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    lines: dict[tuple[str, str, int | None], Line] = {}
    cells: dict[tuple[tuple[str, str, int | None], Column], Cell] = {}
    for table in tables:
        for line in table.lines:
            key = (line.method, line.source, line.seed)
            lines.setdefault(key, line)
            cells |= {(key, column): cell for column, cell in zip(table.columns, line.cells, strict=True)}
    joined = (
        replace(line, cells=tuple(cells.get((key, column), Cell()) for column in columns))
        for key, line in lines.items()
    )
    return replace(tables[0], columns=tuple(columns), lines=tuple(joined), notes=tuple(notes))
