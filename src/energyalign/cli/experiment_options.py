"""Options that both experiments have, and what they ask for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.train.recipe import Recipe

# Options that make another training. The head has a folder of its own, since methods bring theirs.
OF_ANY_TRAINING = (
    "quick", "epochs", "backbone", "scale", "learned_scale", "optimizer", "batch_size", "precision", "compile",
)  # fmt: skip
# Options that say where and how it runs.
OF_THE_MACHINE = ("accelerator", "workers")


def add_run_options(parser: argparse.ArgumentParser, *, seeds: Sequence[int] = (0,), with_source: bool = True) -> None:
    """Which rows, how often, for how long, and where they go."""
    add = parser.add_argument
    add("--method", nargs="+", default=[], metavar="NAME", help="rows of `energyalign list methods`, or all")
    told = " ".join(map(str, seeds))
    add("--seed", type=int, nargs="+", default=list(seeds), metavar="N", help=f"one run for each (default: {told})")
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


def changed_recipe(arguments: argparse.Namespace, recipe: Recipe) -> Recipe:
    """As --epochs, --optimizer and --batch-size say."""
    from energyalign.train.recipe import Adam

    if arguments.epochs is not None:
        recipe = recipe.lasting(arguments.epochs)
    optimizer: Any = recipe.optimizer
    if arguments.optimizer == "adam":
        recipe = replace(recipe, optimizer=Adam(weight_decay=optimizer.weight_decay))
    elif arguments.optimizer == "sgd-plain":
        recipe = replace(recipe, optimizer=replace(optimizer, momentum=0.0))
    if arguments.batch_size is not None:
        recipe = replace(recipe, batch_size=arguments.batch_size)
    return recipe


def given_options(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of these options that the user gave."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def as_options(arguments: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Those of these options that have a value, as words of a command line."""
    words: list[str] = []
    for name in names:
        value, option = getattr(arguments, name), "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def evidence_plans(arguments: argparse.Namespace) -> list[EvidencePlan]:
    """Every size under every policy."""
    from energyalign.experiment.evidence import EvidencePlan

    sizes, policies = dict.fromkeys(arguments.evidence_size), dict.fromkeys(arguments.evidence_policy)
    return [EvidencePlan(size, policy) for policy in policies for size in sizes]


def folder_name(arguments: argparse.Namespace, cell: str, options: Sequence[str]) -> str:
    """The cell and whatever was asked of its trainings: another setting goes to another folder."""
    words = [cell]
    for name in options:
        value = getattr(arguments, name)
        if value is not None and value is not False:
            words.append(name if value is True else f"{name}-{value}")
    return re.sub(r"[^\w.-]+|_", "-", "-".join(words))


def out_folder(arguments: argparse.Namespace, cell: str, options: Sequence[str]) -> Path:
    """Where the runs go: --out, or a folder that is named after cell and options."""
    from energyalign.core.errors import EnergyAlignError

    out = Path(arguments.out or f"runs/{folder_name(arguments, cell, options)}")
    if (out / "config.json").exists():
        raise EnergyAlignError(
            f"{out} is a run directory itself, and run directories go below --out: give the folder that it was made in."
        )
    return out
