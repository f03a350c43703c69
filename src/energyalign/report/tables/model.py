"""Parts of a table, and how its numbers are printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from energyalign.experiments.engine.config import look_up

PAPER, OURS, DIFFERENCE = "paper", "ours", "difference"
MARK = "†"
"""Marks numbers that are not in the paper's setting."""
MAX_BESIDE = 10
"""Maximum number of steps in a row; more are stacked, as in the paper."""


@dataclass(frozen=True)
class Cell:
    """A number in a table, or a missing number.

    Attributes
    ----------
    mean : float, int or None, default None
        None if missing; an int for counts.
    deviation : float or None, default None
        Standard deviation over seeds; None for one seed or if unknown.
    n : int or None, default None
        Number of seeds; None if unknown, as in the paper.
    off_paper : bool, default False
        Whether the number was measured in another setting than the paper's, or is a difference from such a number.
    best : bool, default False
        Whether the number is printed in bold.
    digits : int, default 1
        Decimals of the deviation.
    by_seed : mapping, default {}
        The number of each seed; empty if unknown.
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
        """Return mean and deviation of the numbers of seeds, times `scale`; None and NaN are missing."""
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
        """The deviation as text; empty if there is none."""
        return "" if self.deviation is None else f"{self.deviation:.{self.digits}f}"

    def __str__(self) -> str:
        """Return ``45.3 ± 0.4``, ``45.3`` for one seed, ``-`` if missing."""
        if self.mean is None:
            return "-"
        return " ± ".join(filter(None, (f"{self.mean:.1f}", self.spread)))


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes
    ----------
    title : str
    group : str, default ""
        Heading that neighbouring columns share.
    better : {"higher", "lower", ""}, default "higher"
        Which numbers are better; empty for neither.
    form : str, default ".1f"
        Format specification of its numbers.
    source : str, default "ours"
        Source of its numbers in lines without one.
    """

    title: str
    group: str = ""
    better: Literal["higher", "lower", ""] = "higher"
    form: str = ".1f"
    source: str = OURS

    @property
    def full_title(self) -> str:
        """Group and title."""
        return ", ".join(filter(None, (self.group, self.title)))


SEEDS = Column("seeds", better="", form=".0f")
"""Number of seeds of a line."""


@dataclass(frozen=True)
class Line:
    """The numbers of a method.

    Attributes
    ----------
    method : str
    source : str
        ``paper``, ``ours``, ``difference``, or ``seed 0``; empty if columns have sources.
    cells : tuple of Cell
    seed : int or None, default None
        The seed, if the line is of a single one.
    other_names : tuple of str, default ()
        Other names that select the line.
    """

    method: str
    source: str
    cells: tuple[Cell, ...]
    seed: int | None = None
    other_names: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def off_paper(self) -> bool:
        """Whether no number of the line is in the paper's setting; if so, the mark is beside the line's name."""
        known = [cell.off_paper for cell in self.cells if cell.mean is not None]
        return bool(known) and all(known)

    @property
    def mark(self) -> str:
        """A dagger if the whole line is off the paper's setting."""
        return MARK if self.off_paper else ""

    def mark_of(self, cell: Cell) -> str:
        """Return a dagger for a number off the paper's setting, unless the whole line is."""
        return MARK if cell.off_paper and not self.off_paper else ""

    def number(self, cell: Cell, column: Column) -> str:
        """Format the mean, with a sign in a difference; empty if it is missing."""
        if cell.mean is None:
            return ""
        form = "+.1f" if self.source == DIFFERENCE else column.form
        return format(float(format(cell.mean, form)) + 0.0, form)  # no -0.0

    @property
    def source_and_seeds(self) -> str:
        """The source, with the minimum and maximum number of seeds if it is ours."""
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
        Each with a cell for each column. Lines of one method are neighbours.
    notes : tuple of str, default ()
        Text below the table.
    corner : str, default "method"
        Heading of the names of lines.
    stacked : bool, default False
        Whether groups of columns are stacked if the table is too wide, as in the paper.
    best_of : {"column", "line"}, default "column"
        Whether bold numbers are the best of their column, or of their line within a group of columns.
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
        """Return the table as text in a format of `energyalign.report.tables.formats.FORMATS`."""
        from energyalign.report.tables.formats import FORMATS  # imports this module

        return look_up(FORMATS, form, "format")(self)

    @property
    def named_lines(self) -> list[tuple[str, Line]]:
        """The lines with their methods; empty where the previous line has the same method."""
        before = ["", *(line.method for line in self.lines)]
        return [
            (line.method if line.method != last else "", line) for line, last in zip(self.lines, before, strict=False)
        ]

    @property
    def has_sources(self) -> bool:
        """Whether any line has a source."""
        return any(line.source for line in self.lines)

    @property
    def is_per_seed(self) -> bool:
        """Whether every line is of a single seed."""
        return bool(self.lines) and all(line.seed is not None for line in self.lines)

    @property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Name and column indices of each group of columns."""
        keyed = groupby(range(len(self.columns)), key=lambda index: self.columns[index].group)
        return [(group, list(members)) for group, members in keyed]


def as_text(table: PaperTable) -> tuple[list[str], list[list[str]]]:
    """Return titles and lines as text, without columns whose numbers are all missing."""
    used = [k for k in range(len(table.columns)) if any(line.cells[k].mean is not None for line in table.lines)]
    lines = [[line.method, *(plain(line.cells[k], line, table.columns[k]) for k in used)] for line in table.lines]
    return [table.corner, *(table.columns[k].title for k in used)], lines


def plain(cell: Cell, line: Line, column: Column) -> str:
    """Return ``45.3 ± 0.4`` in the format of the column; ``-`` if missing."""
    return " ± ".join(filter(None, (line.number(cell, column), cell.spread))) or "-"


def one_line(text: str) -> str:
    """Replace line breaks and control characters, which a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


def step_group(step: int, n_steps: int) -> str:
    """Return the group of a step, such as ``steps 11 to 20``; empty if all steps fit in a row."""
    if n_steps <= MAX_BESIDE:
        return ""
    first = (step - 1) // MAX_BESIDE * MAX_BESIDE + 1
    return f"steps {first} to {min(first + MAX_BESIDE - 1, n_steps)}"
