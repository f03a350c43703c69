"""What a table is made of, and how its numbers are written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from energyalign.experiments.engine.config import look_up

PAPER, OURS, DIFFERENCE = "paper", "ours", "difference"
MARK = "†"
"""Of numbers that are not of the paper's setting."""
MAX_BESIDE = 10
"""More steps than these stand below each other, as in the paper."""


@dataclass(frozen=True)
class Cell:
    """A number, or the lack of one.

    Attributes
    ----------
    mean : float, int or None
        None where it is missing; an int if it counts something.
    deviation : float or None
        Standard deviation over seeds; None if there is one seed, or if nobody has said.
    n : int or None
        How many seeds; None where nobody has said, as in the paper.
    off_paper : bool
        Whether it was measured in another setting than the paper's, or is a difference of such a number.
    best : bool
        Whether it is to be printed in bold.
    digits : int
        Behind the point of the deviation.
    by_seed : mapping
        The number of each seed; empty where nobody has said.
    """

    mean: float | None = None
    deviation: float | None = None
    n: int | None = None
    off_paper: bool = False
    best: bool = False
    digits: int = 1
    by_seed: Mapping[int, float] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def over_seeds(
        cls, shares: Mapping[int, float | None] | Sequence[float | None], *, off_paper: bool = False,
        scale: float = 100.0, digits: int = 1,
    ) -> Cell:  # fmt: skip
        """Of accuracies between 0 and 1, by seed or of seeds unknown, in per cent; None and NaN are missing."""
        seeds_known = isinstance(shares, Mapping)
        by_seed = shares.items() if isinstance(shares, Mapping) else enumerate(shares)
        known = {seed: scale * share for seed, share in by_seed if share is not None and not math.isnan(share)}
        if not known:
            return cls()
        deviation = statistics.stdev(known.values()) if len(known) > 1 else None
        mean = statistics.mean(known.values())
        return cls(mean, deviation, len(known), off_paper, digits=digits, by_seed=known if seeds_known else {})

    @property
    def spread(self) -> str:
        """The deviation as it is printed; empty if there is none."""
        return "" if self.deviation is None else f"{self.deviation:.{self.digits}f}"

    def __str__(self) -> str:
        """``45.3 ± 0.4``, ``45.3`` if there is one seed, ``-`` if there is none."""
        if self.mean is None:
            return "-"
        return " ± ".join(filter(None, (f"{self.mean:.1f}", self.spread)))


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes
    ----------
    title : str
    group : str
        Neighbours with the same one stand under it together.
    better : str
        Which of its numbers is the best one: the highest, the lowest, or none.
    form : str
        How they are printed, as in `format`.
    source : str
        Where its numbers are from, in lines that do not say so.
    """

    title: str
    group: str = ""
    better: Literal["higher", "lower", ""] = "higher"
    form: str = ".1f"
    source: str = OURS

    @property
    def full_title(self) -> str:
        """With its group before it."""
        return ", ".join(filter(None, (self.group, self.title)))


SEEDS = Column("seeds", better="", form=".0f")
"""How many seeds a line is of."""


@dataclass(frozen=True)
class Line:
    """The numbers of a method.

    Attributes
    ----------
    method : str
    source : str
        Where they are from: ``paper``, ``ours``, ``difference``, or ``seed 0``; empty if columns say so.
    cells : tuple of Cell
    seed : int or None
        If they are of one seed, which has a line of its own.
    """

    method: str
    source: str
    cells: tuple[Cell, ...]
    seed: int | None = None

    @property
    def off_paper(self) -> bool:
        """Whether all of its numbers are of another setting than the paper's: the mark then stands at its name."""
        known = [cell.off_paper for cell in self.cells if cell.mean is not None]
        return bool(known) and all(known)

    @property
    def mark(self) -> str:
        """A dagger at a line whose numbers are all of another setting than the paper's."""
        return MARK if self.off_paper else ""

    def mark_of(self, cell: Cell) -> str:
        """A dagger at a number of another setting than the paper's, unless it stands at the whole line."""
        return MARK if cell.off_paper and not self.off_paper else ""

    def number(self, cell: Cell, column: Column) -> str:
        """The mean to the digit that is printed, with its sign in a difference; empty if it is missing."""
        if cell.mean is None:
            return ""
        form = "+.1f" if self.source == DIFFERENCE else column.form
        return format(float(format(cell.mean, form)) + 0.0, form)  # no minus before a zero

    @property
    def source_and_seeds(self) -> str:
        """For our lines with the number of seeds, from the fewest to the most that a number is of."""
        if self.source != OURS:
            return self.source
        counts = sorted({cell.n for cell in self.cells if cell.n}) or [0]
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
        return f"{OURS} ({number} {'seed' if counts == [1] else 'seeds'})"


@dataclass(frozen=True)
class PaperTable:
    """A table that can be printed.

    Attributes
    ----------
    name, title : str
    columns : tuple of Column
    lines : tuple of Line
        With a cell for each column. Lines of one method follow each other.
    notes : tuple of str
        What has to be known to read it.
    corner : str
        What the lines are of.
    stacked : bool
        Whether the groups of columns stand below each other where width is scarce, as in the paper.
    best_of : str
        What a number in bold is the best of: its column, or its line within a group of columns.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    corner: str = "method"
    stacked: bool = False
    best_of: Literal["column", "line"] = "column"

    def render(self, form: str) -> str:
        """As text in a format of `energyalign.report.tables.formats.FORMATS`, with a line break at its end."""
        from energyalign.report.tables.formats import FORMATS  # these know what a table is

        return look_up(FORMATS, form, "format")(self)

    @property
    def named_lines(self) -> list[tuple[str, Line]]:
        """The lines, each with its method if that is another than in the line before; else with nothing."""
        before = ["", *(line.method for line in self.lines)]
        return [
            (line.method if line.method != last else "", line) for line, last in zip(self.lines, before, strict=False)
        ]

    @property
    def has_sources(self) -> bool:
        """Whether lines have to say where they are from."""
        return any(line.source for line in self.lines)

    @property
    def is_per_seed(self) -> bool:
        """Whether every line is of one seed, and says which."""
        return bool(self.lines) and all(line.seed is not None for line in self.lines)

    @property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Names of the groups of columns and where in `columns` they are."""
        found: list[tuple[str, list[int]]] = []
        for index, column in enumerate(self.columns):
            if not found or found[-1][0] != column.group:
                found.append((column.group, []))
            found[-1][1].append(index)
        return found


def as_text(table: PaperTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of plain cells, without columns that no line has a number in."""
    used = [k for k in range(len(table.columns)) if any(line.cells[k].mean is not None for line in table.lines)]
    lines = [[line.method, *(plain(line.cells[k], line, table.columns[k]) for k in used)] for line in table.lines]
    return [table.corner, *(table.columns[k].title for k in used)], lines


def plain(cell: Cell, line: Line, column: Column) -> str:
    """``45.3 ± 0.4``, as its column has it; a dash if it is missing."""
    return " ± ".join(filter(None, (line.number(cell, column), cell.spread))) or "-"


def one_line(text: str) -> str:
    """Names are of one line, and carry nothing that a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


def step_group(step: int, n_steps: int) -> str:
    """``steps 11 to 20`` for one of them; nothing if all steps are beside each other."""
    if n_steps <= MAX_BESIDE:
        return ""
    first = (step - 1) // MAX_BESIDE * MAX_BESIDE + 1
    return f"steps {first} to {min(first + MAX_BESIDE - 1, n_steps)}"
