"""What a table is made of, whatever it is printed as."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PAPER, OURS, DIFFERENCE = "paper", "ours", "difference"
MARK = "†"
"""Of numbers that are not of the paper's setting."""


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
    """

    mean: float | None = None
    deviation: float | None = None
    n: int | None = None
    off_paper: bool = False
    best: bool = False

    @classmethod
    def over_seeds(cls, shares: Sequence[float | None], *, off_paper: bool = False) -> Cell:
        """Of accuracies between 0 and 1, one for each seed, in per cent; None and NaN are missing."""
        known = [100.0 * share for share in shares if share is not None and not math.isnan(share)]
        if not known:
            return cls()
        deviation = statistics.stdev(known) if len(known) > 1 else None
        return cls(statistics.mean(known), deviation, len(known), off_paper)

    def __str__(self) -> str:
        """``45.3 ± 0.4``, ``45.3`` if there is one seed, ``-`` if there is none."""
        if self.mean is None:
            return "-"
        return f"{self.mean:.1f}" if self.deviation is None else f"{self.mean:.1f} ± {self.deviation:.1f}"


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


@dataclass(frozen=True)
class Line:
    """The numbers of a method from one source: ``paper``, ``ours`` or ``difference``; empty if columns say so."""

    method: str
    source: str
    cells: tuple[Cell, ...]

    @property
    def off_paper(self) -> bool:
        """Whether all of its numbers are of another setting than the paper's: the mark then stands at its name."""
        known = [cell.off_paper for cell in self.cells if cell.mean is not None]
        return bool(known) and all(known)

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
        What a number in bold is the best of: its column, or its line.
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
        from energyalign.report.tables.formats import find_format  # these know what a table is

        return find_format(form)(self)

    @property
    def has_sources(self) -> bool:
        """Whether lines have to say where they are from."""
        return any(line.source for line in self.lines)

    @property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Names of the groups of columns and where in `columns` they are."""
        found: list[tuple[str, list[int]]] = []
        for index, column in enumerate(self.columns):
            if not found or found[-1][0] != column.group:
                found.append((column.group, []))
            found[-1][1].append(index)
        return found
