"""The runs of `energyalign longtail` and `energyalign incremental`, one after the other, each in its run directory."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from energyalign.cli.ending import ending_together, is_first
from energyalign.cli.launching import launch, make_fabric, narrator
from energyalign.cli.process_counts import process_counts
from energyalign.cli.stopping import command_line, resumable
from energyalign.cli.table import print_for_people
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.engine.row import Row
from energyalign.report.tables.model import PaperTable
from energyalign.report.tables.own import incremental_table, longtail_table, matrix_table, steps_table


def run_request(request: RunRequest, arguments: argparse.Namespace) -> None:
    """Train what is missing, measure, and print the tables."""
    with resumable(arguments), ending_together():
        rows, where = _rows(request, arguments)
        if is_first():
            print(where)
            print_for_people(*_tables(rows, matrix=bool(request.method and request.corrector)))
            for row in rows:
                step = f", step {row.step}" if row.in_steps else ""
                for concern in row.concerns:
                    print(f"warning: {row.learner}, {row.corrector}, seed {row.seed}{step}: {concern}", file=sys.stderr)


def _rows(request: RunRequest, arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of every training and seed, and a line that says what and where they are."""
    counts = process_counts(request.devices, request.nodes)
    if request.source is None:
        fabric = make_fabric(request.accelerator, request.precision or "32-true", counts)
        out, data = request.out_folder, request.load()
        planned = {
            out / run.folder / f"seed-{seed}": run._replace(config=replace(run.config, seed=seed))
            for run in request.plan(data)
            for seed in request.seeds
        }
        where = f"runs in {out}"
    else:
        run = request.finished()
        fabric = make_fabric(request.accelerator, run.config.precision, counts)
        data, planned = request.load_for(run.config), {Path(run.folder): run}
        where = f"run in {run.folder}"
    launch(fabric, counts, arguments.given)
    experiments = {}
    for folder, run in planned.items():
        # Behind a finished run, correctors of a long tail may have a stage to train, and none in steps has.
        scalars = folder / "tensorboard" if request.source is None or not run.config.in_steps else None
        experiments[folder] = request.experiment(
            run.config, data, fabric=fabric, reporter=narrator(fabric, _title(run), scalars=scalars),
            workers=request.workers, command=command_line(arguments),
        )  # fmt: skip
        experiments[folder].check(run.correctors)  # all of them, before hours are spent on the first
    plans = request.evidence_plans
    rows = [row for folder, each in experiments.items() for row in each.run(folder, planned[folder].correctors, *plans)]
    return rows, f"{_cell(list(planned.values()))}; {where}"


def _title(run: Planned) -> str:
    config = run.config
    training = run.folder if config.in_steps else f"{config.learner.name} ({config.head})"
    return f"{config.name} {training} seed {config.seed}"


def _cell(planned: list[Planned]) -> str:
    config = planned[0].config
    heads = sorted({run.config.head for run in planned})
    head = f"{heads[0]} head" if len(heads) == 1 else f"heads {', '.join(heads)}"
    each = " a step" if config.in_steps else ""
    backbones = ", ".join(sorted({run.config.backbone for run in planned}))
    return f"{config.name}, {backbones}, {head}, {config.recipe.epochs} epochs{each}"


def _tables(rows: list[Row], *, matrix: bool) -> list[PaperTable]:
    if rows[0].in_steps:
        return [steps_table(rows), incremental_table(rows)]
    # Correctors put behind several trainings are a table of their own.
    return [longtail_table(rows), *([matrix_table(rows)] if matrix else [])]
