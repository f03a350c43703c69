"""Plan the runs of a table: every row of every cell, with each training once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.sources import check_source
from energyalign.experiments.engine.config import EvidencePlan, RunConfig, stored_place
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.engine.stored import read_rows
from energyalign.experiments.incremental.config import IncrementalRequest
from energyalign.experiments.incremental.methods import METHODS as INCREMENTAL_METHODS
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
from energyalign.experiments.longtail.config import LongTailRequest
from energyalign.experiments.longtail.methods import METHODS as LONG_TAIL_METHODS
from energyalign.experiments.longtail.presets import PRESETS as LONG_TAIL
from energyalign.experiments.nets.registry import check_network
from energyalign.experiments.train.run_directory import RunDirectory

SHARED = (*RunRequest.training_options, "head", "data_root", "accelerator", "workers", "log", "devices")
"""Options that all runs of a sweep share."""
PROTOCOL: dict[str, type[RunRequest]] = {"imbalance": LongTailRequest, "steps": IncrementalRequest}
"""Options that only runs of one application have."""
_FOR_ANY_RUNS = {
    "longtail": tuple(LONG_TAIL), "incremental": tuple(INCREMENTAL), "steps": tuple(INCREMENTAL),
    "matrix": (*LONG_TAIL, *INCREMENTAL),
}  # fmt: skip
_IN_STEPS = ("incremental", "steps")  # tables whose cells are class-incremental, if the data are the user's own
# Cost of a training relative to the plain one of its cell; 1 if not named. Estimated by counting passes through the
# network: a forward pass is 1, a backward pass 2, so plain training is 3.
_LONG_TAIL_LEARNERS = {
    "bbn": 2.0,  # two batches in every step
    "oltr-stage-1": 1 / 3,  # a third of the epochs
    "ride": 1.5,  # the last two thirds of the network three times, with three quarters of the channels
}
_LONG_TAIL_CORRECTORS = {
    "oltr": 2 / 3,  # the other two thirds, with the whole network
    "crt": 1 / 9,  # a third of the epochs; the backbone goes forward only
    "lws": 1 / 9,
    "disalign": 1 / 9,
    "mislas": 1 / 60,  # a twentieth of the epochs, forward only
}
# The hours of an incremental cell are for distillation: 3 for the student and 1 for the teacher.
_INCREMENTAL_LEARNERS = {
    "fine-tune": 3 / 4,
    "eeil": 1.2,  # a short stage on few images after each step
    "rps": 1.7,  # candidates for a tenth of the epochs each
}


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One run, with all correctors behind it."""

    name: str  # unique in its sweep, for example cifar100-lt-100/ce/seed-0
    folder: Path  # the run directory
    command: tuple[str, ...]  # what follows `energyalign` on the command line
    config: dict[str, Any]  # what config.json holds once the run has begun
    correctors: tuple[str, ...]
    hours: float | None = None  # estimated cost on one GPU; None if unknown

    @property
    def command_line(self) -> str:
        """The command line, quoted for a shell."""
        return shlex.join(("energyalign", *self.command))

    def is_done(self) -> bool:
        """Return whether all rows of this config are stored.

        A folder with another config, or a damaged one, is not done: the run will refuse it and say why.
        """
        run = RunDirectory(self.folder)
        try:
            config = self.config | stored_place(run, self.config["dataset"])
            rows = read_rows(run) if run.read_json("config.json") == config else []
        except EnergyAlignError:
            return False
        default = EvidencePlan.default_for(self.config["dataset"])
        measured = {(row.corrector, row.step) for row in rows if row.evidence in (None, default)}
        steps = range(1, self.config.get("n_steps", 1) + 1)
        return all((corrector, step) in measured for corrector in self.correctors for step in steps)


def plan_sweep(
    table: str, cells: Sequence[str], *, methods: Sequence[str], correctors: Sequence[str] = (), seeds: Sequence[int],
    out: Path, shared: Mapping[str, Any],
) -> list[PlannedRun]:  # fmt: skip
    """Return all runs of a table, seed by seed, so that half a sweep is a table with fewer seeds.

    Without `methods`, each cell has the methods of the paper. `correctors` are put behind every training, and the raw
    network is measured too. Run directories go below `out`; all runs have the options `shared`, which may include
    `PROTOCOL`.
    """
    kinds = {cell: _kind(table, cell) for cell in cells}
    for name, kind in PROTOCOL.items():
        if shared.get(name) is not None and kind not in kinds.values():
            raise EnergyAlignError(
                f"--{name} is for runs of `energyalign {kind.command}`, of which {table} has none: leave it out."
            )
    plans = []
    for cell, kind in kinds.items():
        own = {name: value for name, value in shared.items() if PROTOCOL.get(name, kind) is kind}
        options = {**own, "corrector": tuple(dict.fromkeys(("raw", *correctors)))}
        # The runs plan with their data too: on a user's own data, the default memory and network depend on them.
        data = kind(dataset=cell, **options).load() if ":" in cell else None
        plans.append(partial(_runs_of_cell, kind, cell, _methods(methods, kind, cell), data, out=out, options=options))
    return [run for seed in dict.fromkeys(seeds) for runs_of in plans for run in runs_of(seed=seed)]


def refuse_among_images(table: str, cells: Sequence[str], out: Path, data_root: str | None) -> None:
    """Raise if `out`, where the logs go, is among the class folders of a cell's data."""
    for cell in cells:
        _kind(table, cell)(dataset=cell, data_root=data_root).refuse_among_images(out)


def _kind(table: str, cell: str) -> type[RunRequest]:
    in_steps = cell in INCREMENTAL or (cell not in LONG_TAIL and table in _IN_STEPS)
    return IncrementalRequest if in_steps else LongTailRequest


def cells_of(table: str, own: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """Return the requested cells, by default all cells of a table of the paper; raise if the table lacks one."""
    known = own or _FOR_ANY_RUNS[table]
    for name in asked or ():
        if ":" in name and not own:
            check_source(name)  # a user's own data
        elif name not in known:
            raise EnergyAlignError(f"the table {table} has no cell {name!r}: choose one of {', '.join(known)}.")
    if not (asked or own):
        raise EnergyAlignError(f"the table {table} has no default cells: choose with --cell: {', '.join(known)}.")
    return list(dict.fromkeys(asked or own))


def _runs_of_cell(
    kind: type[RunRequest], cell: str, methods: Sequence[str], data: Any, *, seed: int, out: Path,
    options: Mapping[str, Any],
) -> list[PlannedRun]:  # fmt: skip
    place = kind(dataset=cell, **options).preset.name
    of_folder: dict[str, list[str]] = {}
    planned: dict[str, Planned] = {}
    for method in methods:
        (run,) = kind(dataset=cell, method=(method,), seed=(seed,), **options).plan(data)
        check_network(run.config.backbone, run.config.head, run.config.weights)
        before = planned.get(run.folder, run).correctors
        planned[run.folder] = run._replace(correctors=tuple(dict.fromkeys([*before, *run.correctors])))
        of_folder.setdefault(run.folder, []).append(method)
    own = [name for name in PROTOCOL if name in options]
    runs = []
    for folder, run in planned.items():
        request = kind(dataset=cell, method=tuple(of_folder[folder]), seed=(seed,), out=str(out / place), **options)
        words = request.words(("method", "corrector", "seed", "out", *own, *SHARED))
        runs.append(
            PlannedRun(
                f"{place}/{folder}/seed-{seed}", out / place / folder / f"seed-{seed}", (kind.command, cell, *words),
                run.config.to_json(), run.correctors, _hours(run.config, run.correctors, cell),
            )
        )  # fmt: skip
    return runs


def _methods(asked: Sequence[str], kind: type[RunRequest], cell: str) -> list[str]:
    """Return the requested methods, by default the paper's methods in this cell, or all methods if it has none.

    On a user's own data the default is plain training with few correctors.
    """
    in_steps = kind is IncrementalRequest
    known = INCREMENTAL_METHODS if in_steps else LONG_TAIL_METHODS
    if "all" in asked:
        return list(known)
    if ":" in cell:
        return list(dict.fromkeys(asked or (["ea"] if in_steps else ["ce", "la-post-hoc", "ea"])))
    printed = INCREMENTAL[cell].paper if in_steps else LONG_TAIL[cell].paper
    return list(dict.fromkeys(asked or printed or known))


def _hours(config: RunConfig, correctors: Sequence[str], cell: str) -> float | None:
    """Estimate the hours on one V100, proportional to epochs; None for data or networks that no preset has."""
    if ":" in cell:
        return None
    preset = LONG_TAIL[cell] if cell in LONG_TAIL else INCREMENTAL[cell]
    if config.backbone != config.learner.backbone(preset.backbone):
        return None
    hours = preset.gpu_hours * config.recipe.epochs / config.learner.recipe(preset).epochs
    learner = config.learner.name
    if cell in LONG_TAIL:
        second_stages = sum(_LONG_TAIL_CORRECTORS.get(corrector, 0.0) for corrector in correctors)
        return hours * (_LONG_TAIL_LEARNERS.get(learner, 1.0) + second_stages)
    if learner == "joint":  # step b of B trains on b / B of the images
        return hours * 3 / 4 * (INCREMENTAL[cell].n_steps + 1) / 2
    return hours * _INCREMENTAL_LEARNERS.get(learner, 1.0)
