"""Rows of several seeds as one table, beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from energyalign.longtail.correctors import find_corrector
from energyalign.longtail.paper import PAPER
from energyalign.longtail.rows import Row

COLUMNS = ("overall", "many", "medium", "few")


def table_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Column names and lines: a line for each corrector and kind of evidence, in the order in which they came.

    Ours is mean and standard deviation over seeds, in per cent; the difference is ours minus the paper's.
    """
    one_plan = len({str(row["evidence"]) for row in rows}) == 1
    groups: dict[str, list[Row]] = {}
    for row in rows:
        name = row["corrector"]
        label = name if one_plan or not find_corrector(name).reads_evidence else f"{name}, {_plan(row)}"
        groups.setdefault(label, []).append(row)
    lines = []
    for label, same in groups.items():
        paper = PAPER.get(same[0]["cell"], {}).get(same[0]["corrector"])
        ours = [mean_and_deviation([row[column] for row in same]) for column in COLUMNS]
        theirs = "" if paper is None else f"{paper.overall:.1f}"
        difference = "" if paper is None else f"{_mean(same) - paper.overall:+.1f}"
        lines.append([label, *ours, str(len(same)), theirs, difference])
    return ["accuracy, %", *COLUMNS, "seeds", "paper", "difference"], lines


def mean_and_deviation(values: Sequence[float | None]) -> str:
    """In per cent, as a cell of a table: ``45.3 ± 0.4``, ``45.3`` if there is one, ``-`` if there is none."""
    known = [100.0 * value for value in values if value is not None]
    if not known:
        return "-"
    if len(known) == 1:
        return f"{known[0]:.1f}"
    return f"{statistics.mean(known):.1f} ± {statistics.stdev(known):.1f}"


def _plan(row: Row) -> str:
    return f"{row['evidence']['policy']} x {row['evidence']['per_class']}"


def _mean(rows: Sequence[Row]) -> float:
    return 100.0 * float(statistics.mean(row["overall"] for row in rows))
