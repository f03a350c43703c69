"""`energyalign sweep`: all runs of a table, on this machine or on a cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from energyalign.cli.experiment_options import add_machine_options, add_run_options, add_training_options

if TYPE_CHECKING:
    from pathlib import Path

    from energyalign.experiments.sweep.planned_run import PlannedRun
    from energyalign.report.tables.registry import TableEntry

_EXAMPLES = """\
examples:
  energyalign sweep longtail --cell digits-lt-50 --jobs 2              every method on digits, in minutes
  energyalign sweep cifar-lt --dry-run                                 what Table 10 of the paper would take
  energyalign sweep cifar-lt --data-root ~/data --jobs 8 --gpus 1      on a machine with eight GPUs
  energyalign sweep cifar100-il-10 --method ea wa bic --seed 0 1 2 --data-root ~/data
  energyalign sweep imagenet-lt --engine ray --address auto --gpus 4 --devices 4 --data-root /shared/imagenet
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sweep",
        help="run all that a table needs, and complete it whatever fails",
        description="Run every training that a table of the paper needs, each once, several at a time, on this machine "
        "or on a Ray cluster, then print the table. Each is an ordinary run directory. Runs that are done are skipped, "
        "one that fails does not stop the others, and the same command completes what is missing.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("table", metavar="TABLE", help="of `energyalign list tables`")
    add("--cell", nargs="+", metavar="NAME", help="presets of `energyalign list presets` (default: all of the table)")
    add("--dry-run", action="store_true", help="print the plan and run nothing")
    add_run_options(parser, seeds=[0, 1, 2], with_source=False)
    engine = parser.add_argument_group("engine")
    add = engine.add_argument
    add("--engine", choices=["local", "ray"], default="local", help="default: %(default)s")
    add("--jobs", type=int, metavar="N", help="runs at once (default: as many as CPUs, or GPUs, allow)")
    add(
        "--address",
        metavar="HOST:PORT",
        help="of a Ray cluster, or auto (default: one that is started on this machine)",
    )
    add("--cpus", type=int, default=1, metavar="N", help="CPU threads of each run (default: 1)")
    add("--gpus", type=int, metavar="N", help="GPUs of each run (default: as --devices, if this machine has any)")
    add("--devices", type=int, metavar="N", help="processes that share each run, with a GPU each (default: 1)")
    add(
        "--retries", type=int, default=3, metavar="N", help="how often to go on with a run that was killed (default: 3)"
    )
    add_training_options(parser, ["cosine", "linear", "capsule", "causal-norm"])
    add_machine_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Plan, run what is missing, print the table."""
    from energyalign.cli.stopping import resumable
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
            f"energyalign: {len(errors)} of {len(runs)} runs failed; their logs are in {out / 'logs'}. The same "
            "command tries them again.",
            file=sys.stderr,
        )
    _print_table(table, [run for run in runs if run.name not in errors])
    if errors:
        raise SystemExit(1)


def planned_runs(arguments: argparse.Namespace, table: TableEntry) -> tuple[list[PlannedRun], Path]:
    """What the options ask for, and the folder that it goes to."""
    from pathlib import Path

    from energyalign.experiments.longtail.config import LongTailRequest
    from energyalign.experiments.sweep.plan import SHARED, cells_of, plan_sweep

    cells = cells_of(table.name, table.cells, arguments.cell)
    shared = {name: getattr(arguments, name) for name in SHARED}
    name = LongTailRequest(dataset=cells[0], **shared).folder_name(f"sweep-{table.name}", "head")
    out = Path(arguments.out or f"runs/{name}")
    runs = plan_sweep(table.name, cells, methods=arguments.method, seeds=arguments.seed, out=out, shared=shared)
    return runs, out


def _complete(arguments: argparse.Namespace, runs: list[PlannedRun], out: Path) -> dict[str, str]:
    """Run what is missing; the errors of what failed, by name."""
    import contextlib

    from energyalign.cli.sweep_engine import chosen_engine
    from energyalign.cli.sweep_overview import Overview
    from energyalign.experiments.sweep.complete import Completion
    from energyalign.experiments.train.lock import locked

    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(out))
        engine = stack.enter_context(chosen_engine(arguments, out))
        overview = stack.enter_context(Overview(sys.stderr))
        completion = Completion(
            out, runs, engine, program=("energyalign.cli.main",), retries=arguments.retries, watcher=overview.show
        )
        completion.finish()
        return completion.record.errors()


def _print_plan(runs: list[PlannedRun], out: Path) -> None:
    from energyalign.cli.tables import make_console, print_table

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
        f"only in what follows the training share it. Done: {len(runs) - len(missing)}, to do: {len(missing)}, "
        f"in {out}."
    )
    if all(run.hours is not None for run in runs):
        print(
            f"What is to do would cost {_hours(missing)} hours of one V100, a guess from the size of network and data."
        )
    else:
        print("The cost is not estimated: networks are not those of the presets.")


def _hours(runs: list[PlannedRun]) -> str:
    if any(run.hours is None for run in runs):
        return ""
    hours = sum(run.hours or 0.0 for run in runs)
    return "0" if hours == 0 else "< 0.01" if hours < 0.01 else f"{hours:.2g}" if hours < 10 else f"{hours:,.0f}"


def _print_table(table: TableEntry, runs: list[PlannedRun]) -> None:
    """Of what there is."""
    from energyalign.cli.table import print_for_people
    from energyalign.experiments.engine.stored import measured_runs

    there = [run.folder for run in runs if (run.folder / "rows.jsonl").exists()]
    if there:
        print_for_people(table.make([row for run in measured_runs(there) for row in run.rows]))
