"""What `energyalign longtail` and `energyalign incremental` share: options, and the runs that they ask for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.experiments.engine.request import RunRequest


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
        add(
            "--from", dest="source", nargs="+", default=[], metavar="RUN",
            help="measure the networks of these run directories, such as all seeds of a training; train none",
        )  # fmt: skip


def add_training_options(parser: argparse.ArgumentParser, heads: Sequence[str]) -> Any:
    """Network and recipe; returns the group, for what else belongs there."""
    group = parser.add_argument_group("network and training")
    add = group.add_argument
    add(
        "--backbone", metavar="NAME",
        help="network below the head (default: the preset's); timm:NAME or torchvision:NAME for any of a library",
    )  # fmt: skip
    add(
        "--weights", metavar="PATH",
        help="start the backbone from this .safetensors file, or from `default`, the weights that its library "
        "downloads",
    )  # fmt: skip
    add("--freeze", action="store_true", help="train the head alone; the backbone stays as --weights has it")
    add(
        "--head",
        choices=heads,
        help="classifier (default: that of the method, or cosine as in the paper); some methods keep their own",
    )
    add("--scale", type=float, metavar="S", help="multiplies the cosines of a cosine head (default: 16)")
    add("--learned-scale", action="store_true", help="train the scale of the cosine head too")
    add("--optimizer", choices=["sgd", "sgd-plain", "adam"], help="sgd-plain is without momentum (default: sgd)")
    add("--lr", type=float, metavar="X", help="learning rate at the start of the schedule (default: the preset's)")
    add("--weight-decay", type=float, metavar="X", help="default: the preset's; some methods keep their own")
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
        "--evidence-policy", nargs="+", default=[], metavar="NAME",
        help="how evidence is changed: images by one or two (default) of the paper's ten transformations, by half "
        "(each with probability one half), none, crop-flip, or training (as in training); features by mixup (default), "
        "noise or none",
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
    add("--log", choices=["tensorboard", "wandb", "mlflow"], default="tensorboard",
        help="write curves for this tracker, offline, into the run directory (default: tensorboard)")  # fmt: skip
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
    from energyalign.cli.distributed import ending_together, is_first, launch, make_fabric, narrator, process_counts
    from energyalign.cli.process import command_line, resumable
    from energyalign.cli.terminal import print_for_people
    from energyalign.experiments.engine.experiment import Work
    from energyalign.report.tables.own import describe_row, tables_of

    with resumable(arguments), ending_together():
        counts = process_counts(request.devices, request.nodes)
        work = Work.of(request)
        fabric = make_fabric(request.accelerator, work.precision, counts)
        launch(fabric, counts, arguments.given)
        rows = work.do(
            fabric=fabric, reporter_of=partial(narrator, fabric, request.log), command=command_line(arguments)
        )
        if is_first():
            print(work)
            print_for_people(*tables_of(rows, matrix=bool(request.method and request.corrector)))
            for row in rows:
                for concern in row.concerns:
                    print(f"warning: {describe_row(row)}: {concern}", file=sys.stderr)
