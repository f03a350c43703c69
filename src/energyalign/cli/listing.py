"""`energyalign list`: what there is."""

from __future__ import annotations

import argparse
import sys
from typing import Any

_KINDS = ("methods", "datasets", "presets", "tables")


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "list",
        help="list methods, datasets, presets or tables",
        description="List what this version of energyalign has.",
        epilog="example:\n  energyalign list methods",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=_KINDS, metavar="KIND", help=", ".join(_KINDS))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print one table."""
    from energyalign.cli.tables import make_console, print_table

    columns, rows = {"methods": _methods, "datasets": _datasets}.get(arguments.kind, _nothing)()
    if rows:
        print_table(make_console(sys.stdout), columns, rows)
    else:
        print(f"No {arguments.kind} yet: they come with the long-tailed and incremental experiments.")


def _methods() -> tuple[list[str], list[list[str]]]:
    from energyalign.core.estimators import ESTIMATORS

    rows = [[name, entry.description, entry.reference] for name, entry in ESTIMATORS.items()]
    rows.append(["auto", "chooses among them and the ways of sharing, on the evidence", "energyalign"])
    return ["method", "what it does", "reference"], rows


def _datasets() -> tuple[list[str], list[list[str]]]:
    from energyalign.demo.digits import DESCRIPTION

    return ["dataset", "what it is", "used by"], [["digits", DESCRIPTION, "energyalign demo"]]


def _nothing() -> tuple[list[str], list[list[str]]]:
    return [], []
