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

    known = {"methods": _methods, "datasets": _datasets, "presets": _presets}
    columns, rows = known.get(arguments.kind, _nothing)()
    if rows:
        print_table(make_console(sys.stdout), columns, rows)
    else:
        print(f"No {arguments.kind} yet: they come with the report.")


def _methods() -> tuple[list[str], list[list[str]]]:
    from energyalign.core.estimators import ESTIMATORS
    from energyalign.incremental.correctors import CORRECTORS as INCREMENTAL_CORRECTORS
    from energyalign.incremental.methods import METHODS as INCREMENTAL
    from energyalign.longtail.correctors import CORRECTORS
    from energyalign.longtail.methods import METHODS

    rows = [[name, "estimator", entry.description, entry.reference] for name, entry in ESTIMATORS.items()]
    rows.append(["auto", "estimator", "chooses among them and the ways of sharing, on the evidence", "energyalign"])
    rows += [[name, "long tail", entry.description, entry.reference] for name, entry in METHODS.items()]
    rows += [[name, "long tail, corrector", entry.description, entry.reference] for name, entry in CORRECTORS.items()]
    rows += [[name, "incremental", entry.description, entry.reference] for name, entry in INCREMENTAL.items()]
    rows += [
        [name, "incremental, corrector", entry.description, entry.reference]
        for name, entry in INCREMENTAL_CORRECTORS.items()
    ]
    return ["method", "of", "what it does", "reference"], rows


def _datasets() -> tuple[list[str], list[list[str]]]:
    from energyalign.data.sources import SOURCES

    return ["dataset", "what it is", "reference"], [
        [n, entry.description, entry.reference] for n, entry in SOURCES.items()
    ]


def _presets() -> tuple[list[str], list[list[str]]]:
    from energyalign.incremental.presets import PRESETS as INCREMENTAL
    from energyalign.longtail.presets import PRESETS

    rows = [
        [
            preset.name, preset.backbone, str(preset.recipe.epochs),
            f"{preset.paper['ea'].overall:.1f}" if preset.paper else "", f"{preset.gpu_hours:g}",
        ]
        for preset in PRESETS.values()
    ]  # fmt: skip
    rows += [
        [
            preset.name, preset.backbone, f"{preset.n_steps} x {preset.recipe.epochs}",
            f"{preset.paper['ea'].average1:.1f}" if preset.paper else "", f"{preset.gpu_hours:g}",
        ]
        for preset in INCREMENTAL.values()
    ]  # fmt: skip
    return ["preset", "network", "epochs", "EA in the paper, %", "V100 hours, a guess"], rows


def _nothing() -> tuple[list[str], list[list[str]]]:
    return [], []
