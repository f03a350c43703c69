"""Options that both experiments have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


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
    add("--backbone", metavar="NAME", help="default: the preset's")
    add(
        "--head",
        choices=heads,
        help="default: that of the method, or cosine as in the paper; methods with a head of their own keep it",
    )
    add("--scale", type=float, metavar="S", help="of the cosine head (default: 16)")
    add("--learned-scale", action="store_true", help="let the scale be learned")
    add("--optimizer", choices=["sgd", "sgd-plain", "adam"], help="sgd-plain is without momentum (default: sgd)")
    add("--batch-size", type=int, metavar="N", help="default: the preset's")
    return group


def add_evidence_options(group: Any) -> None:
    """How much evidence, and how it is augmented."""
    add = group.add_argument
    add("--evidence-size", type=int, nargs="+", default=[50], metavar="N", help="images of each class (default: 50)")
    add(
        "--evidence-policy", nargs="+", default=["one"], metavar="NAME",
        help="how they are augmented: by one of the paper's ten transformations (default), two, half, none, crop-flip, "
        "or as in training",
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
