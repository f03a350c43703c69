"""Which runs a table needs: every row of every cell, trainings that rows have in common once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from energyalign.cli import incremental_plan, longtail_plan
from energyalign.cli.experiment_options import OF_ANY_TRAINING, OF_THE_MACHINE, as_options
from energyalign.core.errors import EnergyAlignError
from energyalign.incremental.methods import METHODS as INCREMENTAL_METHODS
from energyalign.incremental.presets import PRESETS as INCREMENTAL
from energyalign.longtail.learners import CrossEntropy
from energyalign.longtail.methods import METHODS as LONG_TAIL_METHODS
from energyalign.longtail.presets import PRESETS as LONG_TAIL
from energyalign.nets.network import check_network
from energyalign.sweep.cost import incremental_hours, long_tail_hours
from energyalign.sweep.planned_run import PlannedRun

if TYPE_CHECKING:
    from energyalign.report.tables.registry import TableEntry

_HANDED_ON = (*OF_ANY_TRAINING, "head", "data_root", *OF_THE_MACHINE, "devices")


_FOR_ANY_RUNS = {
    "longtail": tuple(LONG_TAIL), "incremental": tuple(INCREMENTAL), "steps": tuple(INCREMENTAL),
    "matrix": (*LONG_TAIL, *INCREMENTAL),
}  # fmt: skip


class _Row(NamedTuple):
    """What one method needs with one seed."""

    folder: str
    config: Any
    correctors: list[str]


def planned_runs(arguments: argparse.Namespace, table: TableEntry, out: Path) -> list[PlannedRun]:
    """All runs of a table, cell by cell, with the first seed first: half a sweep is then a table of fewer seeds."""
    cells = _cells(arguments, table)
    seeds = list(dict.fromkeys(arguments.seed))
    return [run for seed in seeds for cell in cells for run in _runs_of_cell(arguments, cell, seed, out)]


def _cells(arguments: argparse.Namespace, table: TableEntry) -> list[str]:
    known = table.cells or _FOR_ANY_RUNS[table.name]
    for name in arguments.cell or ():
        if name not in known:
            raise EnergyAlignError(f"the table {table.name} has no cell {name!r}: choose among {', '.join(known)}.")
    if not (arguments.cell or table.cells):
        raise EnergyAlignError(f"the table {table.name} is for any cells: choose some with --cell: {', '.join(known)}.")
    return list(dict.fromkeys(arguments.cell or table.cells))


def _runs_of_cell(arguments: argparse.Namespace, cell: str, seed: int, out: Path) -> list[PlannedRun]:
    methods: dict[str, list[str]] = {}
    rows: dict[str, _Row] = {}
    application = "longtail" if cell in LONG_TAIL else "incremental"
    shared = as_options(arguments, _HANDED_ON)
    for method in _methods(arguments.method, cell):
        row = _row(_parsed([application, cell, "--method", method, "--seed", str(seed), *shared]))
        before = rows.get(row.folder, row).correctors
        rows[row.folder] = row._replace(correctors=list(dict.fromkeys([*before, *row.correctors])))
        methods.setdefault(row.folder, []).append(method)
    return [
        PlannedRun(
            f"{cell}/{name}/seed-{seed}",
            out / cell / name / f"seed-{seed}",
            (application, cell, "--method", *methods[name], "--seed", str(seed), "--out", str(out / cell), *shared),
            row.config.to_json(),
            tuple(row.correctors),
            _hours(row, cell),
        )
        for name, row in rows.items()
    ]


def _methods(asked: Sequence[str], cell: str) -> list[str]:
    """Those asked for; by default those that the paper has in this cell, or all where it has none."""
    known = LONG_TAIL_METHODS if cell in LONG_TAIL else INCREMENTAL_METHODS
    if "all" in asked:
        return list(known)
    printed = LONG_TAIL[cell].paper if cell in LONG_TAIL else INCREMENTAL[cell].paper
    return list(dict.fromkeys(asked or printed or known))


def _parsed(command: Sequence[str]) -> argparse.Namespace:
    """As the process will understand its command line."""
    from energyalign.cli.main import build_parser

    return build_parser().parse_args(command)


def _row(command: argparse.Namespace) -> _Row:
    if command.command == "incremental":
        preset = incremental_plan.chosen_preset(command)
        (run,) = incremental_plan.planned_runs(command, preset, preset.memory_for(0, 1))
        check_network(run.config.backbone, run.config.head)
        return _Row(run.folder, run.config, run.correctors)
    cell = longtail_plan.chosen_preset(command)
    (training,) = longtail_plan.planned_trainings(command, cell.head, CrossEntropy())
    config = longtail_plan.make_config(command, cell, training, command.seed[0])
    check_network(config.backbone, config.head)
    return _Row(training.folder(cell.head), config, training.correctors)


def _hours(row: _Row, cell: str) -> float | None:
    """Of one V100, if the network is that of the cell; fewer epochs are so much cheaper."""
    preset: Any = LONG_TAIL[cell] if cell in LONG_TAIL else INCREMENTAL[cell]
    config = row.config
    if config.backbone != config.learner.backbone(preset.backbone):
        return None
    hours = preset.gpu_hours * config.recipe.epochs / config.learner.recipe(preset.recipe).epochs
    if cell in LONG_TAIL:
        return long_tail_hours(hours, config.learner.name, row.correctors)
    return incremental_hours(hours, config.learner.name, config.n_steps)
