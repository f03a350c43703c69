"""`energyalign compare`: paired comparison of two rows, with tests and intervals."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from energyalign.cli.table import add_table_options, write_table

if TYPE_CHECKING:
    from energyalign.report.comparison import Pair

DESCRIPTION = (
    "Compare two rows on the same test images: over images (exact McNemar test of the accuracy, paired bootstrap of "
    "the balanced accuracy) and over seeds (paired t interval). Trains nothing."
)
EXAMPLES = """\
examples:
  energyalign compare runs/digits-lt-50                          raw against every other corrector
  energyalign compare runs/digits-lt-50 --rows raw ea            these correctors, behind every training in the folder
  energyalign compare runs/digits-lt-50/ce runs/digits-lt-50/ldam-drw       two trainings, under each corrector of both
  energyalign compare runs --where head=cosine seed=0 --columns "B - A" p
  energyalign compare runs/digits-lt-50/ce:ea runs/digits-lt-50/ldam-drw:raw --format markdown
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("one", metavar="A", help="a run directory, or a folder that contains some; FOLDER:CORRECTOR for one row")
    add("other", metavar="B", nargs="?", help="compare A with this one (default: compare rows of A with each other)")
    add("--rows", nargs="+", default=[], metavar="CORRECTOR",
        help="with A alone: compare the first of these with each of the others; with A and B: compare these rows of "
        "A with the same rows of B")  # fmt: skip
    add_table_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read the rows, compare them, print the table."""
    from energyalign.report.comparison import comparison_table
    from energyalign.report.selection import select_part

    folders = [_split(place)[0] for place in (arguments.one, arguments.other) if place is not None]
    write_table(arguments, folders, lambda: select_part(comparison_table(_pairs(arguments)), columns=arguments.columns))


def _pairs(arguments: argparse.Namespace) -> list[Pair]:
    from energyalign.core.errors import EnergyAlignError
    from energyalign.experiments.engine.stored import measured_runs
    from energyalign.report.comparison import check_corrector, pairs_between, pairs_within
    from energyalign.report.selection import parse_where, select_runs

    (one, first), (other, second) = _split(arguments.one), _split(arguments.other or "")
    where, given = parse_where(arguments.where), list(dict.fromkeys(arguments.rows))
    sides = [select_runs(measured_runs([folder]), where) for folder in filter(None, (one, other))]
    named = [(runs, name) for runs, name in zip(sides, (first, second), strict=False) if name]
    for runs, name in named:
        check_corrector(runs, name)
    if len(named) == 1 or (named and given) or (not arguments.other and len(given) == 1):
        raise EnergyAlignError(
            "expected two rows to compare: give A:CORRECTOR B:CORRECTOR, or folders and --rows ONE OTHER."
        )
    if not arguments.other:
        return pairs_within(sides[0], given)
    return pairs_between(sides[0], sides[1], [(first, second)] if named else [(name, name) for name in given])


def _split(place: str) -> tuple[str, str]:
    """Split FOLDER:CORRECTOR; the corrector may be empty, and a folder may have a colon in its name."""
    from pathlib import Path

    folder, colon, corrector = place.rpartition(":")
    return (folder, corrector) if colon and not Path(place).exists() else (place, "")
