"""Rows of several seeds as one table, beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from energyalign.longtail.paper import PAPER
from energyalign.longtail.rows import Row

COLUMNS = ("overall", "many", "medium", "few")


def table_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Column names and lines: a line for each corrector, in the order in which they came.

    Ours is mean and standard deviation over seeds, in per cent; the difference is ours minus the paper's.
    """
    lines = []
    for corrector in dict.fromkeys(row["corrector"] for row in rows):
        same = [row for row in rows if row["corrector"] == corrector]
        paper = PAPER.get(same[0]["cell"], {}).get(corrector)
        ours = [_mean_and_deviation([row[column] for row in same]) for column in COLUMNS]
        theirs = "" if paper is None else f"{paper.overall:.1f}"
        difference = "" if paper is None else f"{_mean(same) - paper.overall:+.1f}"
        lines.append([corrector, *ours, str(len(same)), theirs, difference])
    return ["accuracy, %", *COLUMNS, "seeds", "paper", "difference"], lines


def _mean(rows: Sequence[Row]) -> float:
    return 100.0 * float(statistics.mean(row["overall"] for row in rows))


def _mean_and_deviation(values: Sequence[float | None]) -> str:
    known = [100.0 * value for value in values if value is not None]
    if not known:
        return "-"
    if len(known) == 1:
        return f"{known[0]:.1f}"
    return f"{statistics.mean(known):.1f} ± {statistics.stdev(known):.1f}"
