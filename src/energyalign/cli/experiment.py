"""What `energyalign longtail` and `energyalign incremental` share: options, and the runs that they ask for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.experiments.engine.request import Planned, RunRequest
    from energyalign.experiments.engine.row import Row


def add_run_options(parser: argparse.ArgumentParser, *, seeds: Sequence[int] = (0,), with_source: bool = True) -> None:
    """Which rows, how often, for how long, and where they go."""
    add = parser.add_argument
    add("--method", nargs="+", default=[], metavar="NAME", help="rows of `energyalign list methods`, or all")
    default = " ".join(map(str, seeds))
    add("--seed", type=int, nargs="+", default=list(seeds), metavar="N", help=f"one run for each (default: {default})")
    add("--epochs", type=int, metavar="N", help="train for so long, the schedule scaled (default: the preset's)")
    add("--quick", action="store_true", help="a smaller network and fewer epochs")
    add("--data-root", metavar="DIR", help="where the data set is (default: data)")
    add("--out", metavar="DIR", help="where the runs go (default: runs/ and the name of cell and options)")
    if with_source:
        add("--from", dest="source", metavar="RUN", help="measure the network of this run directory, train none")


def add_training_options(parser: argparse.ArgumentParser, heads: Sequence[str]) -> Any:
    """Network and recipe; returns the group, for what else belongs there."""
    group = parser.add_argument_group("network and training")
    add = group.add_argument
    add("--backbone", metavar="NAME", help="network below the head (default: the preset's)")
    add(
        "--head",
        choices=heads,
        help="classifier (default: that of the method, or cosine as in the paper); some methods keep their own",
    )
    add("--scale", type=float, metavar="S", help="multiplies the cosines of a cosine head (default: 16)")
    add("--learned-scale", action="store_true", help="train the scale of the cosine head too")
    add("--optimizer", choices=["sgd", "sgd-plain", "adam"], help="sgd-plain is without momentum (default: sgd)")
    add("--batch-size", type=int, metavar="N", help="images of a batch (default: the preset's)")
    return group


def add_evidence_options(group: Any) -> None:
    """How much evidence, and how it is augmented."""
    add = group.add_argument
    add(
        "--evidence-size",
        type=int,
        nargs="+",
        default=[50],
        metavar="N",
        help="evidence images of each class (default: 50)",
    )
    add(
        "--evidence-policy", nargs="+", default=["one"], metavar="NAME",
        help="how evidence images are augmented: by one (default) or two of the paper's ten transformations, by half "
        "(each with probability one half), none, crop-flip, or training (as in training)",
    )  # fmt: skip


def add_machine_options(parser: argparse.ArgumentParser) -> Any:
    """Device, precision, workers; returns the group, for what else belongs there."""
    group = parser.add_argument_group("machine")
    add = group.add_argument
    add("--accelerator", default="auto", metavar="NAME", help="auto, cpu, cuda, mps")
    add("--precision", metavar="NAME", help="32-true, bf16-mixed, ... (default: 32-true)")
    add("--compile", action="store_true",
        help="compile the network (torch.compile); measure first, on two CPU cores it is no faster")  # fmt: skip
    add("--workers", type=int, default=2, metavar="N", help="processes that read image files (default: 2)")
    return group


def add_process_options(group: Any) -> None:
    """How many processes share one run."""
    add = group.add_argument
    add(
        "--devices", type=int, metavar="N",
        help="share each run among so many GPUs, or processes on CPUs, of every node (default: 1, or what torchrun or "
        "srun has started)",
    )  # fmt: skip
    add("--nodes", type=int, metavar="N", help="... and so many nodes, on each of which the command is started")


def run_request(request: RunRequest, arguments: argparse.Namespace) -> None:
    """Train what is missing, measure, and print the tables."""
    from energyalign.cli.distributed import ending_together, is_first
    from energyalign.cli.process import resumable
    from energyalign.cli.terminal import print_for_people
    from energyalign.report.tables.own import describe_row, tables_of

    with resumable(arguments), ending_together():
        rows, where = _rows(request, arguments)
        if is_first():
            print(where)
            print_for_people(*tables_of(rows, matrix=bool(request.method and request.corrector)))
            for row in rows:
                for concern in row.concerns:
                    print(f"warning: {describe_row(row)}: {concern}", file=sys.stderr)


def _rows(request: RunRequest, arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of every training and seed, and a line that says what and where they are."""
    from energyalign.cli.distributed import launch, make_fabric, narrator, process_counts
    from energyalign.cli.process import command_line

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
    from energyalign.core.errors import count_of

    config = planned[0].config
    heads = sorted({run.config.head for run in planned})
    head = f"{heads[0]} head" if len(heads) == 1 else f"heads {', '.join(heads)}"
    each = " a step" if config.in_steps else ""
    backbones = ", ".join(sorted({run.config.backbone for run in planned}))
    return f"{config.name}, {backbones}, {head}, {count_of(config.recipe.epochs, 'epoch')}{each}"
