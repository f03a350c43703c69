"""`energyalign list`: list methods, datasets, presets, tables and figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

_KINDS = ("methods", "datasets", "presets", "tables", "figures")

DESCRIPTION = "List the methods, datasets, presets, tables or figures of this version."
EXAMPLES = "example:\n  energyalign list methods"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("kind", choices=_KINDS, metavar="KIND", help=", ".join(_KINDS))


def run(arguments: argparse.Namespace) -> None:
    """Print one or more tables."""
    from energyalign.cli.terminal import make_console, print_table

    of_kind = {
        "methods": _methods, "datasets": _datasets, "presets": _presets, "tables": _tables, "figures": _figures
    }  # fmt: skip
    console = make_console(sys.stdout)
    for listing in of_kind[arguments.kind]():
        print_table(console, listing.columns, listing.rows, title=listing.title)


class Listing(NamedTuple):
    """A table to print."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def _methods() -> list[Listing]:
    from energyalign.core.estimators import ESTIMATORS
    from energyalign.core.selection.auto import IN_ORDER
    from energyalign.experiments.correctors import BOTH, CORRECTORS, TEMPERED
    from energyalign.experiments.incremental.methods import METHODS as INCREMENTAL
    from energyalign.experiments.longtail.methods import METHODS

    auto = ["auto", f"the first of {', '.join(IN_ORDER)} that applies, with its best strength", "energyalign"]
    return [
        Listing("estimators (energyalign fit)", ["estimator", *_ABOUT], [*_describe(ESTIMATORS), auto]),
        *(
            Listing(
                f"long tail, {whose} (energyalign longtail --method)",
                ["method", *_ABOUT],
                _describe({name: row for name, row in METHODS.items() if row.in_paper == in_paper}),
            )
            for whose, in_paper in _ORIGINS
        ),
        *(
            Listing(
                f"class-incremental, {whose} (energyalign incremental --method)",
                ["method", "learner", "memory", "corrector", *_ABOUT],
                [
                    [name, row.learner, row.memory, row.corrector, row.description, row.reference]
                    for name, row in INCREMENTAL.items()
                    if row.in_paper == in_paper
                ],
            )
            for whose, in_paper in _ORIGINS
        ),
        Listing(
            "behind any training (--corrector)",
            ["corrector", "for", *_ABOUT],
            [
                *([name, entry.serves, entry.description, entry.reference] for name, entry in CORRECTORS.items()),
                [f"NAME{TEMPERED}", BOTH, "any of these, then a temperature fitted on the evidence", "Guo et al. 2017"],
            ],
        ),
    ]


_ABOUT = ("what it does", "reference")
_ORIGINS = (("the paper's rows", True), ("not in the paper", False))


def _describe(registry: Mapping[str, Any]) -> list[list[str]]:
    return [[name, entry.description, entry.reference] for name, entry in registry.items()]


def _datasets() -> list[Listing]:
    from energyalign.experiments.data.sources import SOURCES

    return [Listing("", ["dataset", "what it is", "reference"], _describe(SOURCES))]


def _tables() -> list[Listing]:
    from energyalign.report.tables import TABLES

    return [Listing("", ["table", "what is in it", "in the paper"], _describe(TABLES))]


def _figures() -> list[Listing]:
    from energyalign.report.figures import FIGURES

    return [Listing("", ["figure", "what it shows", "reference"], _describe(FIGURES))]


def _presets() -> list[Listing]:
    from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
    from energyalign.experiments.longtail.presets import PRESETS

    hours = "V100 hours (estimate)"
    long_tail = [
        [
            preset.name, preset.backbone, str(preset.recipe.epochs),
            f"{preset.paper['ea'].overall:.1f}" if preset.paper else "", f"{preset.gpu_hours:g}",
        ]
        for preset in PRESETS.values()
    ]  # fmt: skip
    incremental = [
        [
            preset.name, preset.backbone, str(preset.n_steps), str(preset.recipe.epochs), str(preset.memory_total),
            f"{preset.paper['ea'].average1:.1f}" if preset.paper else "", f"{preset.gpu_hours:g}",
        ]
        for preset in INCREMENTAL.values()
    ]  # fmt: skip
    return [
        Listing("long tail", ["preset", "network", "epochs", "EA in the paper, %", hours], long_tail),
        Listing(
            "class-incremental",
            ["preset", "network", "steps", "epochs a step", "memory", "EA in the paper, average top-1 %", hours],
            incremental,
        ),
    ]
