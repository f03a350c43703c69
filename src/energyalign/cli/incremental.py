"""`energyalign incremental`: the paper's class-incremental experiments."""

from __future__ import annotations

import argparse

from energyalign.cli.experiment import (
    add_evidence_options,
    add_machine_options,
    add_process_options,
    add_run_options,
    add_training_options,
    run_request,
)

DESCRIPTION = (
    "Train a network on classes that come in steps, with a small memory of old classes, and measure it after each step "
    "on all classes seen: raw, with energy aligning, and with any other method of the paper's tables. A method is a "
    "learner, a memory and a corrector. After Ctrl-C, the same command resumes."
)
EXAMPLES = """\
examples:
  energyalign incremental digits                                      5 steps of 2 classes, nothing to download
  energyalign incremental digits --method all --seed 0 1 2            every row
  energyalign incremental cifar100 --steps 10 --method ea wa bic --data-root ~/data
  energyalign incremental cifar100 --steps 10 --learner distill --memory random:2000 --corrector ea
  energyalign incremental cifar100 --steps 5 --subset first:20 --memory 200 --quick     small enough for two cores
  energyalign incremental digits --learner distill --corrector raw ea tau-norm --fed-back raw   one training
  energyalign incremental digits --corrector il2m scail --from runs/digits-il-5/fine-tune-linear-random-40/seed-0
  energyalign incremental imagenet100 --order seed:7 --data-root /data/imagenet
  energyalign incremental folder:my_images --steps 4 --epochs 30      your own images
  energyalign incremental folder:my_images --backbone torchvision:resnet50 --weights default --freeze     a new head
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("dataset", metavar="DATASET",
        help="a name from `energyalign list datasets` or `energyalign list presets`; imagenet100; or your own data: "
        "folder:PATH, lists:PATH, parquet:PATH, features:PATH")  # fmt: skip
    add("--steps", type=int, metavar="N", help="number of steps (default: 10, or the preset's)")
    add("--order", metavar="NAME",
        help="order of the classes: seed1993, icarl, natural, seed:N, or a .json file with a list of class names or "
        "numbers (default: the preset's)")  # fmt: skip
    add("--subset", metavar="NAME",
        help="which classes to learn: all, first:N, first100, seed1993 (default: the preset's)")  # fmt: skip
    add_run_options(parser)

    add = parser.add_argument_group(
        "parts of a method", "Combine your own method, or override these parts of every --method."
    ).add_argument
    add("--learner", metavar="NAME", help="loss and head, see `energyalign list methods` (default: distill)")
    add("--memory", metavar="NAME[:N]",
        help="exemplars of all old classes: random:2000, herding:2000, none, all; a number alone overrides the size "
        "(default: the learner's, mostly random, with the preset's size)")  # fmt: skip
    add("--corrector", nargs="+", default=[], metavar="NAME",
        help="correctors of the trained network, one row each (default: the learner's, mostly ea)")  # fmt: skip
    add("--fed-back", metavar="NAME",
        help="corrector of the teacher of the next step, for all rows (default: each row uses its own)")  # fmt: skip

    add_training_options(parser, ["cosine", "linear"])
    add_evidence_options(parser.add_argument_group("evidence"))
    add_process_options(add_machine_options(parser))


def run(arguments: argparse.Namespace) -> None:
    """Run every training and seed in its own run directory, then print the tables."""
    from energyalign.experiments.incremental.config import IncrementalRequest

    run_request(IncrementalRequest.from_arguments(arguments), arguments)
