"""Which runs a table needs: every row of every cell, trainings that rows have in common once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import RunConfig
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.incremental.config import IncrementalRequest
from energyalign.experiments.incremental.methods import METHODS as INCREMENTAL_METHODS
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
from energyalign.experiments.longtail.config import LongTailRequest
from energyalign.experiments.longtail.methods import METHODS as LONG_TAIL_METHODS
from energyalign.experiments.longtail.presets import PRESETS as LONG_TAIL
from energyalign.experiments.nets.registry import check_network
from energyalign.experiments.sweep.cost import incremental_hours, long_tail_hours
from energyalign.experiments.sweep.planned_run import PlannedRun

SHARED = (*RunRequest.training_options, "head", "data_root", "accelerator", "workers", "devices")
"""Options that every run of a sweep gets."""
_FOR_ANY_RUNS = {
    "longtail": tuple(LONG_TAIL), "incremental": tuple(INCREMENTAL), "steps": tuple(INCREMENTAL),
    "matrix": (*LONG_TAIL, *INCREMENTAL),
}  # fmt: skip


def plan_sweep(
    table: str, cells: Sequence[str], *, methods: Sequence[str], seeds: Sequence[int], out: Path,
    shared: Mapping[str, Any],
) -> list[PlannedRun]:  # fmt: skip
    """All runs of a table, cell by cell, with the first seed first: half a sweep is then a table of fewer seeds.

    Parameters
    ----------
    table : str
        For the messages.
    cells : sequence of str
        Presets by name.
    methods : sequence of str
        Those that are asked for; the paper's of each cell if empty.
    seeds : sequence of int
    out : Path
        Run directories go below.
    shared : mapping
        Options of every run: those of `SHARED`.
    """
    for cell in cells:
        if cell not in LONG_TAIL and cell not in INCREMENTAL:
            raise EnergyAlignError(f"the table {table} has no cell {cell!r}.")
    return [
        run
        for seed in dict.fromkeys(seeds)
        for cell in cells
        for run in _runs_of_cell(cell, _methods(methods, cell), seed, out, shared)
    ]


def cells_of(table: str, own: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """The cells that are asked for, if the table has them; all of a table of the paper by default."""
    known = own or _FOR_ANY_RUNS[table]
    for name in asked or ():
        if name not in known:
            raise EnergyAlignError(f"the table {table} has no cell {name!r}: choose among {', '.join(known)}.")
    if not (asked or own):
        raise EnergyAlignError(f"the table {table} is for any cells: choose some with --cell: {', '.join(known)}.")
    return list(dict.fromkeys(asked or own))


def _runs_of_cell(
    cell: str, methods: Sequence[str], seed: int, out: Path, shared: Mapping[str, Any]
) -> list[PlannedRun]:
    kind: type[RunRequest] = LongTailRequest if cell in LONG_TAIL else IncrementalRequest
    of_folder: dict[str, list[str]] = {}
    planned: dict[str, Planned] = {}
    for method in methods:
        (run,) = kind(dataset=cell, method=(method,), seed=(seed,), **shared).plan()
        check_network(run.config.backbone, run.config.head)
        before = planned.get(run.folder, run).correctors
        planned[run.folder] = run._replace(correctors=tuple(dict.fromkeys([*before, *run.correctors])))
        of_folder.setdefault(run.folder, []).append(method)
    runs = []
    for folder, run in planned.items():
        request = kind(dataset=cell, method=tuple(of_folder[folder]), seed=(seed,), out=str(out / cell), **shared)
        words = request.words(("method", "seed", "out", *SHARED))
        runs.append(
            PlannedRun(
                f"{cell}/{folder}/seed-{seed}", out / cell / folder / f"seed-{seed}", (kind.command, cell, *words),
                run.config.to_json(), run.correctors, _hours(run.config, run.correctors, cell),
            )
        )  # fmt: skip
    return runs


def _methods(asked: Sequence[str], cell: str) -> list[str]:
    """Those asked for; by default those that the paper has in this cell, or all where it has none."""
    known = LONG_TAIL_METHODS if cell in LONG_TAIL else INCREMENTAL_METHODS
    if "all" in asked:
        return list(known)
    printed = LONG_TAIL[cell].paper if cell in LONG_TAIL else INCREMENTAL[cell].paper
    return list(dict.fromkeys(asked or printed or known))


def _hours(config: RunConfig, correctors: Sequence[str], cell: str) -> float | None:
    """Of one V100, if the network is that of the cell; fewer epochs are so much cheaper."""
    preset = LONG_TAIL[cell] if cell in LONG_TAIL else INCREMENTAL[cell]
    if config.backbone != config.learner.backbone(preset.backbone):
        return None
    hours = preset.gpu_hours * config.recipe.epochs / config.learner.recipe(preset).epochs
    if cell in LONG_TAIL:
        return long_tail_hours(hours, config.learner.name, correctors)
    return incremental_hours(hours, config.learner.name, INCREMENTAL[cell].n_steps)
