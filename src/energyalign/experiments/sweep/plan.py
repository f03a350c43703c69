"""Which runs a table needs: every row of every cell, trainings that rows have in common once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.sources import check_source
from energyalign.experiments.engine.config import EvidencePlan, RunConfig, short_name
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
"""Options that every run of a sweep gets."""
_FOR_ANY_RUNS = {
    "longtail": tuple(LONG_TAIL), "incremental": tuple(INCREMENTAL), "steps": tuple(INCREMENTAL),
    "matrix": (*LONG_TAIL, *INCREMENTAL),
}  # fmt: skip
_IN_STEPS = ("incremental", "steps")  # what these tables are of, if the cell is a user's own data
# A guess by counting passes through the network: a forward pass is 1, a backward pass 2, and plain training is 3.
# What a training costs beside the plain one of its cell; those that are not named cost as much.
_LONG_TAIL_LEARNERS = {
    "bbn": 2.0,  # two batches in every step
    "oltr-stage-1": 1 / 3,  # of the epochs
    "ride": 1.5,  # the last two thirds of the network three times, with three quarters of the channels
}
_LONG_TAIL_CORRECTORS = {
    "oltr": 2 / 3,  # the other two thirds, of the whole network
    "crt": 1 / 9,  # a third of the epochs; the backbone goes forward only
    "lws": 1 / 9,
    "disalign": 1 / 9,
    "mislas": 1 / 60,  # a twentieth of the epochs, forward only
}
# The hours of an incremental cell are for distillation: a step of 3 for the student and 1 for the teacher.
_INCREMENTAL_LEARNERS = {
    "fine-tune": 3 / 4,
    "eeil": 1.2,  # a short stage on few images behind each step
    "rps": 1.7,  # candidates for a tenth of the epochs each
}


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A training with one seed, and all rows that share it."""

    name: str  # unique in its sweep, for example cifar100-lt-100/ce/seed-0
    folder: Path  # the run directory
    command: tuple[str, ...]  # what follows `energyalign` on the command line
    config: dict[str, Any]  # what config.json holds once the run has begun
    correctors: tuple[str, ...]
    hours: float | None = None  # a guess at its cost on one GPU; None if there is nothing to guess from

    @property
    def command_line(self) -> str:
        """As a shell takes it."""
        return shlex.join(("energyalign", *self.command))

    def is_done(self) -> bool:
        """Whether all its rows are there, of this very setting.

        A folder with another setting, or that is damaged, is not done: the run refuses it and says why.
        """
        run = RunDirectory(self.folder)
        try:
            rows = read_rows(run) if run.read_json("config.json") == self.config else []
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
    """All runs of a table, cell by cell, with the first seed first: half a sweep is then a table of fewer seeds.

    Without `methods` each cell has the paper's. `correctors` are put behind every training, and the raw network is
    measured too. Run directories go below `out`; the options of every run are `shared`.
    """
    options = {**shared, "corrector": tuple(dict.fromkeys(("raw", *correctors)))}
    return [
        run
        for seed in dict.fromkeys(seeds)
        for cell in cells
        for kind in [_kind(table, cell)]
        for run in _runs_of_cell(kind, cell, _methods(methods, kind, cell), seed=seed, out=out, options=options)
    ]


def refuse_among_images(table: str, cells: Sequence[str], out: Path, data_root: str | None) -> None:
    """Raise if a sweep, whose logs are in `out`, would put a folder among those of the classes of a cell."""
    for cell in cells:
        _kind(table, cell)(dataset=cell, data_root=data_root).refuse_among_images(out)


def _kind(table: str, cell: str) -> type[RunRequest]:
    in_steps = cell in INCREMENTAL or (cell not in LONG_TAIL and table in _IN_STEPS)
    return IncrementalRequest if in_steps else LongTailRequest


def cells_of(table: str, own: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """The cells that are asked for, if the table has them; all of a table of the paper by default."""
    known = own or _FOR_ANY_RUNS[table]
    for name in asked or ():
        if ":" in name and not own:
            check_source(name)  # a user's own data
        elif name not in known:
            raise EnergyAlignError(f"the table {table} has no cell {name!r}: choose among {', '.join(known)}.")
    if not (asked or own):
        raise EnergyAlignError(f"the table {table} is for any cells: choose some with --cell: {', '.join(known)}.")
    return list(dict.fromkeys(asked or own))


def _runs_of_cell(
    kind: type[RunRequest], cell: str, methods: Sequence[str], *, seed: int, out: Path, options: Mapping[str, Any]
) -> list[PlannedRun]:
    place = short_name(cell) if ":" in cell else cell
    of_folder: dict[str, list[str]] = {}
    planned: dict[str, Planned] = {}
    for method in methods:
        (run,) = kind(dataset=cell, method=(method,), seed=(seed,), **options).plan()
        check_network(run.config.backbone, run.config.head, run.config.weights)
        before = planned.get(run.folder, run).correctors
        planned[run.folder] = run._replace(correctors=tuple(dict.fromkeys([*before, *run.correctors])))
        of_folder.setdefault(run.folder, []).append(method)
    runs = []
    for folder, run in planned.items():
        request = kind(dataset=cell, method=tuple(of_folder[folder]), seed=(seed,), out=str(out / place), **options)
        words = request.words(("method", "corrector", "seed", "out", *SHARED))
        runs.append(
            PlannedRun(
                f"{place}/{folder}/seed-{seed}", out / place / folder / f"seed-{seed}", (kind.command, cell, *words),
                run.config.to_json(), run.correctors, _hours(run.config, run.correctors, cell),
            )
        )  # fmt: skip
    return runs


def _methods(asked: Sequence[str], kind: type[RunRequest], cell: str) -> list[str]:
    """Those asked for; by default those that the paper has in this cell, or all where it has none.

    On a user's own data by default those of the plainest training.
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
    """Of one V100, if data and network are those of a cell; fewer epochs are so much cheaper."""
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
