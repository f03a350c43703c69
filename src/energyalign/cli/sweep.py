"""`energyalign sweep`: run all trainings of a table, on this machine or on a cluster."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyalign.cli.experiment import add_machine_options, add_run_options, add_training_options
from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.experiments.sweep.plan import PlannedRun
    from energyalign.experiments.sweep.processes import LocalEngine
    from energyalign.report.tables import TableEntry

DESCRIPTION = (
    "Run every training that a table needs, on this machine or on a Ray cluster, then print the table. Each training "
    "is run once, in an ordinary run directory. Finished runs are skipped, a failed run does not stop the others, and "
    "the same command completes what is missing."
)
EXAMPLES = """\
examples:
  energyalign sweep longtail --cell digits-lt-50 --jobs 2              every method on digits, in minutes
  energyalign sweep cifar-lt --dry-run                                 what Table 10 of the paper would cost
  energyalign sweep cifar-lt --data-root ~/data --jobs 8 --gpus 1      on a machine with eight GPUs
  energyalign sweep cifar100-il-10 --method ea wa bic --seed 0 1 2 --data-root ~/data
  energyalign sweep longtail --cell features:texts.safetensors --method ce la-loss --corrector ea ea-auto
  energyalign sweep imagenet-lt --engine ray --address auto --gpus 4 --devices 4 --data-root /shared/imagenet
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("table", metavar="TABLE", help="a name from `energyalign list tables`")
    add("--cell", nargs="+", metavar="NAME",
        help="presets from `energyalign list presets`, or your own data: folder:PATH, features:PATH, ... (default: all "
        "presets of the table)")  # fmt: skip
    add("--imbalance", type=float, metavar="N",
        help="for your own long-tailed data: size of the largest class divided by the size of the smallest (default: "
        "unchanged)")  # fmt: skip
    add("--steps", type=int, metavar="N", help="number of steps for your own class-incremental data (default: 5)")
    add("--corrector", nargs="+", default=[], metavar="NAME", help="apply these to every trained network, besides raw")
    add("--dry-run", action="store_true", help="print the plan and run nothing")
    add_run_options(parser, seeds=[0, 1, 2], with_source=False)
    add = parser.add_argument_group("engine").add_argument
    add("--engine", choices=["local", "ray"], default="local", help="this machine (default) or a Ray cluster")
    add("--jobs", type=int, metavar="N", help="runs at a time (default: as many as CPUs or GPUs allow)")
    add("--address", metavar="HOST:PORT",
        help="address of the Ray cluster, or auto (default: start one on this machine)")  # fmt: skip
    add("--cpus", type=int, default=1, metavar="N", help="CPU threads per run (default: 1)")
    add(
        "--gpus",
        type=int,
        metavar="N",
        help="GPUs per run (default: the number of --devices if this machine has GPUs, else 0)",
    )
    add("--devices", type=int, metavar="N", help="processes that share each run, one GPU each (default: 1)")
    add("--retries", type=int, default=3, metavar="N", help="how often to resume a run that was killed (default: 3)")
    add_training_options(parser, ["cosine", "linear", "capsule", "causal-norm"])
    add_machine_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Plan the sweep, run what is missing, print the table."""
    from energyalign.cli.process import resumable
    from energyalign.report.tables import find_table

    table = find_table(arguments.table)
    runs, out = planned_runs(arguments, table)
    if arguments.dry_run:
        _print_plan(runs, out)
        return
    with resumable(arguments):
        errors = _complete(arguments, runs, out)
    for name, error in errors.items():
        print(f"energyalign: {name} failed: {error}", file=sys.stderr)
    if errors:
        print(
            f"energyalign: {len(errors)} of {len(runs)} runs failed; their logs are in {out / 'logs'}. Run the same "
            "command to retry them.",
            file=sys.stderr,
        )
    _print_table(table, [run for run in runs if run.name not in errors])
    if errors:
        raise SystemExit(1)


def planned_runs(arguments: argparse.Namespace, table: TableEntry) -> tuple[list[PlannedRun], Path]:
    """Return the runs of the sweep and its folder."""
    from energyalign.experiments.longtail.config import LongTailRequest
    from energyalign.experiments.sweep.plan import PROTOCOL, SHARED, cells_of, plan_sweep, refuse_among_images
    from energyalign.experiments.train.run_directory import refuse_run_directory

    cells = cells_of(table.name, table.cells, arguments.cell)
    shared = {name: getattr(arguments, name) for name in SHARED}
    name = LongTailRequest(dataset=cells[0], **shared).folder_name(f"sweep-{table.name}", "head")
    out = Path(arguments.out or f"runs/{name}")
    refuse_run_directory(out)
    runs = plan_sweep(
        table.name, cells, methods=arguments.method, correctors=arguments.corrector, seeds=arguments.seed, out=out,
        shared=shared | {name: getattr(arguments, name) for name in PROTOCOL},
    )  # fmt: skip
    if not arguments.dry_run:
        refuse_among_images(table.name, cells, out, arguments.data_root)
    return runs, out


def _complete(arguments: argparse.Namespace, runs: list[PlannedRun], out: Path) -> dict[str, str]:
    """Run what is missing; return the errors of failed runs, by name."""
    from energyalign.cli.sweep_overview import Overview
    from energyalign.experiments.sweep.complete import Completion
    from energyalign.experiments.train.locking import locked

    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(out))
        engine = stack.enter_context(chosen_engine(arguments, out))
        overview = stack.enter_context(Overview(sys.stderr))
        completion = Completion(
            out, runs, engine, program=("energyalign.cli.main",), retries=arguments.retries, watcher=overview.show
        )
        return completion.finish()


def _print_plan(runs: list[PlannedRun], out: Path) -> None:
    from energyalign.cli.terminal import make_console, print_table

    trainings: dict[str, list[PlannedRun]] = {}
    for run in runs:
        trainings.setdefault(run.name.rpartition("/")[0], []).append(run)
    lines = [
        [name, ", ".join(same[0].correctors), _hours(same), f"{sum(run.is_done() for run in same)} of {len(same)}"]
        for name, same in trainings.items()
    ]
    console = make_console(sys.stdout)
    print_table(console, ["training", "measured under", "GPU hours", "seeds done"], lines)
    missing = [run for run in runs if not run.is_done()]
    n_rows = sum(len(run.correctors) for run in runs)
    seeds = len(runs) // len(trainings)
    print(
        f"Runs: {len(runs)}, for {n_rows} rows (trainings: {len(trainings)}, seeds of each: {seeds}). Rows that differ "
        f"only in the corrector share a training. Done: {len(runs) - len(missing)}, to do: {len(missing)}, in {out}."
    )
    if any(":" in run.config["dataset"] for run in runs):
        print("The cost is not estimated for your own data.")
    elif all(run.hours is not None for run in runs):
        print(f"Estimated cost of the rest: {_hours(missing)} hours of one V100, from the size of network and data.")
    else:
        print("No cost estimate: it is known only for the networks of the presets.")


def _hours(runs: list[PlannedRun]) -> str:
    if any(run.hours is None for run in runs):
        return ""
    hours = sum(run.hours or 0.0 for run in runs)
    return "0" if hours == 0 else "< 0.01" if hours < 0.01 else f"{hours:.2g}" if hours < 10 else f"{hours:,.0f}"


def _print_table(table: TableEntry, runs: list[PlannedRun]) -> None:
    """Print the table of the runs that have rows."""
    from energyalign.cli.terminal import print_for_people
    from energyalign.experiments.engine.stored import measured_runs

    measured = [run.folder for run in runs if (run.folder / "rows.jsonl").exists()]
    if measured:
        print_for_people(table.make([row for run in measured_runs(measured) for row in run.rows]))


@contextlib.contextmanager
def chosen_engine(arguments: argparse.Namespace, out: Path) -> Iterator[Any]:
    """Open the engine of --engine: this machine or a Ray cluster, with resources for each run."""
    for name, minimum in (("jobs", 1), ("cpus", 1), ("devices", 1), ("gpus", 0), ("retries", 0)):
        number = getattr(arguments, name)
        if number is not None and number < minimum:
            raise EnergyAlignError(f"--{name} must be >= {minimum}, got {number}.")
    processes = 1 if arguments.devices is None else arguments.devices
    if arguments.engine == "ray":
        from energyalign.experiments.sweep.on_ray import RayEngine

        on_cluster = RayEngine(
            arguments.address, jobs=arguments.jobs, processes=processes, cpus=arguments.cpus,
            gpus=0 if arguments.accelerator == "cpu" else arguments.gpus, log=out / "logs" / "ray.txt",
        )  # fmt: skip
        try:
            yield on_cluster
        finally:
            on_cluster.close()
    else:
        yield _local_engine(arguments, processes)


def _local_engine(arguments: argparse.Namespace, processes: int) -> LocalEngine:
    from energyalign.experiments.sweep.processes import LocalEngine

    if arguments.address is not None:
        raise EnergyAlignError("--address needs --engine ray: add it, or leave --address out.")
    available = 0 if arguments.accelerator == "cpu" else _n_gpus()
    gpus = (processes if available else 0) if arguments.gpus is None else arguments.gpus
    needed = gpus * (arguments.jobs or 1)
    if needed > available:
        raise EnergyAlignError(
            f"{arguments.jobs or 1} runs at a time with {gpus} GPUs each need {needed} GPUs, but this machine has "
            f"{available}: lower --jobs or --gpus."
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = arguments.jobs or (available // gpus if gpus else max(1, cores // (arguments.cpus * processes)))
    return LocalEngine(jobs, cpus=arguments.cpus, gpus=gpus)


def _n_gpus() -> int:
    import torch

    return int(torch.cuda.device_count())
