"""Options and runs that `energyalign longtail`, `incremental` and `sweep` share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.experiments.engine.request import RunRequest


def add_run_options(parser: argparse.ArgumentParser, *, seeds: Sequence[int] = (0,), with_source: bool = True) -> None:
    """Add methods, seeds, epochs and folders."""
    add = parser.add_argument
    add("--method", nargs="+", default=[], metavar="NAME", help="methods from `energyalign list methods`, or all")
    default = " ".join(map(str, seeds))
    add("--seed", type=int, nargs="+", default=list(seeds), metavar="N", help=f"one run per seed (default: {default})")
    add("--epochs", type=int, metavar="N",
        help="number of epochs; scales the learning-rate schedule (default: the preset's)")  # fmt: skip
    add("--quick", action="store_true", help="use a smaller network and fewer epochs")
    add("--data-root", metavar="DIR", help="folder of the data set (default: data)")
    add("--out", metavar="DIR", help="folder of the runs (default: runs/ and a name made of preset and options)")
    if with_source:
        add("--from", dest="source", nargs="+", default=[], metavar="RUN",
            help="measure the trained networks in these run directories; train nothing")  # fmt: skip


def add_training_options(parser: argparse.ArgumentParser, heads: Sequence[str]) -> Any:
    """Add network and recipe; return the group, so that a command can add more options to it."""
    group = parser.add_argument_group("network and training")
    add = group.add_argument
    add("--backbone", metavar="NAME",
        help="network that computes the features, also timm:NAME or torchvision:NAME (default: the "
        "preset's)")  # fmt: skip
    add("--weights", metavar="PATH",
        help="initial weights of the backbone: a .safetensors file, or `default` to download those of its "
        "library")  # fmt: skip
    add("--freeze", action="store_true", help="train only the head; the backbone keeps its --weights")
    add("--head", choices=heads,
        help="classifier (default: the method's, or cosine as in the paper); some methods ignore this")  # fmt: skip
    add("--scale", type=float, metavar="S", help="scale of a cosine head (default: 16)")
    add("--learned-scale", action="store_true", help="train the scale of the cosine head too")
    add("--optimizer", choices=["sgd", "sgd-plain", "adam"],
        help="sgd-plain has no momentum (default: sgd, and adam on features)")  # fmt: skip
    add("--lr", type=float, metavar="X", help="initial learning rate (default: the preset's)")
    add("--weight-decay", type=float, metavar="X",
        help="weight decay (default: the preset's); some methods ignore this")  # fmt: skip
    add("--batch-size", type=int, metavar="N", help="images per batch (default: the preset's)")
    return group


def add_evidence_options(group: Any) -> None:
    """Add size and augmentation of the evidence."""
    add = group.add_argument
    add("--evidence-size", type=int, nargs="+", default=[50], metavar="N",
        help="evidence images per class (default: 50)")  # fmt: skip
    add("--evidence-policy", nargs="+", default=[], metavar="NAME",
        help="augmentation of the evidence. Images: one or two (default) of the paper's ten transformations, half "
        "(each with probability one half), none, crop-flip, or training (as in training). Features: mixup (default), "
        "noise or none")  # fmt: skip


def add_machine_options(parser: argparse.ArgumentParser) -> Any:
    """Add device, precision and workers; return the group, so that a command can add more options to it."""
    group = parser.add_argument_group("machine")
    add = group.add_argument
    add("--accelerator", default="auto", metavar="NAME", help="auto (default), cpu, cuda, mps")
    add("--precision", metavar="NAME", help="32-true, bf16-mixed, ... (default: 32-true)")
    add("--compile", action="store_true",
        help="compile the network with torch.compile; measure first, it is no faster on two CPU cores")  # fmt: skip
    add("--workers", type=int, default=2, metavar="N", help="processes that read image files (default: 2)")
    add("--log", choices=["tensorboard", "wandb", "mlflow"], default="tensorboard",
        help="tracker to write training curves for, offline, in the run directory (default: tensorboard)")  # fmt: skip
    return group


def add_process_options(group: Any) -> None:
    """Add --devices and --nodes, the processes that share one run."""
    add = group.add_argument
    add("--devices", type=int, metavar="N",
        help="GPUs, or CPU processes, per node that share each run (default: 1, or as started by torchrun or "
        "srun)")  # fmt: skip
    add("--nodes", type=int, metavar="N", help="nodes that share each run; start the command on every node")


def run_request(request: RunRequest, arguments: argparse.Namespace) -> None:
    """Run the missing trainings, measure, and print the tables."""
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
