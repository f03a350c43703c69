"""Numbers and names as all formats print them."""

from __future__ import annotations

from energyalign.report.tables.model import DIFFERENCE, MARK, Cell, Column, Line, PaperTable


def number(cell: Cell, line: Line, column: Column) -> str:
    """To the digit that is printed, with its sign in a difference; empty if it is missing."""
    if cell.mean is None:
        return ""
    rounded = round(cell.mean, 1) + 0.0  # no minus before a zero
    return format(rounded, "+.1f" if line.source == DIFFERENCE else column.form)


def deviation(cell: Cell) -> str:
    """To the same digit; empty if there is none."""
    return "" if cell.deviation is None else f"{cell.deviation:.1f}"


def mark(cell: Cell, line: Line) -> str:
    """A dagger at a number of another setting than the paper's, unless it stands at the whole line."""
    return MARK if cell.off_paper and not line.off_paper else ""


def mark_of_line(line: Line) -> str:
    """A dagger at a line whose numbers are all of another setting than the paper's."""
    return MARK if line.off_paper else ""


def method_of(lines: tuple[Line, ...], index: int) -> str:
    """The name at the first line of a method; empty at those that follow."""
    return "" if index and lines[index - 1].method == lines[index].method else lines[index].method


def as_text(table: PaperTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of plain cells, without columns that no line has a number in."""
    used = [k for k in range(len(table.columns)) if any(line.cells[k].mean is not None for line in table.lines)]
    lines = [[line.method, *(plain(line.cells[k], line, table.columns[k]) for k in used)] for line in table.lines]
    return [table.corner, *(table.columns[k].title for k in used)], lines


def plain(cell: Cell, line: Line, column: Column) -> str:
    """``45.3 ± 0.4``, as its column has it; a dash if it is missing."""
    return " ± ".join(filter(None, (number(cell, line, column), deviation(cell)))) or "-"


def one_line(text: str) -> str:
    """Names are of one line, and carry nothing that a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)
