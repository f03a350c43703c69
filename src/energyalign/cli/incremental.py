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
    "Train a network on classes that come in steps, with few images of old ones kept, and measure it "
    "after each step on all classes seen: as it is, with energy aligning, and with any other method of the paper's "
    "tables. A method is a learner, a memory and a corrector. Stopped by Ctrl-C, the same command goes on where it "
    "was."
)
EXAMPLES = """\
examples:
  energyalign incremental digits                                      5 steps of 2 classes, with nothing to download
  energyalign incremental digits --method all --seed 0 1 2            every row
  energyalign incremental cifar100 --steps 10 --method ea wa bic --data-root ~/data
  energyalign incremental cifar100 --steps 10 --learner distill --memory random:2000 --corrector ea
  energyalign incremental cifar100 --steps 5 --subset first:20 --memory 200 --quick     a budget for two cores
  energyalign incremental digits --learner distill --corrector raw ea tau-norm --fed-back raw   all of one training
  energyalign incremental digits --corrector il2m scail --from runs/digits-il-5/fine-tune-linear-random-40/seed-0
  energyalign incremental imagenet100 --order seed:7 --data-root /data/imagenet
  energyalign incremental folder:my_images --steps 4 --epochs 30      your own images
  energyalign incremental folder:my_images --backbone torchvision:resnet50 --weights default --freeze     a new head
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    add = parser.add_argument
    add(
        "dataset",
        metavar="DATASET",
        help="a name of `energyalign list datasets` or `... list presets`; imagenet100; folder:PATH, lists:PATH, "
        "parquet:PATH, features:PATH",
    )
    add("--steps", type=int, metavar="N", help="how often new classes come (default: 10, or the preset's)")
    add(
        "--order",
        metavar="NAME",
        help="order in which the classes come: seed1993, icarl, natural, seed:N (default: the preset's)",
    )
    add("--subset", metavar="NAME", help="which classes come: all, first:N, first100, seed1993 (default: the preset's)")
    add_run_options(parser)

    slots = parser.add_argument_group(
        "parts of a method", "Put together a method of your own, or change these parts of every method asked for."
    )
    add = slots.add_argument
    add("--learner", metavar="NAME", help="loss and head, see `energyalign list methods` (default: distill)")
    add(
        "--memory", metavar="NAME[:N]",
        help="exemplars of all old classes: random:2000, herding:2000, none, all; a number alone changes the number "
        "(default: that of the learner's rows, mostly random, and the preset's number)",
    )  # fmt: skip
    add(
        "--corrector",
        nargs="+",
        default=[],
        metavar="NAME",
        help="correct the trained network by these, a row for each (default: that of the learner's row, ea)",
    )
    add(
        "--fed-back", metavar="NAME",
        help="corrector whose result is the teacher of the next step, for all rows (default: each row's own)",
    )  # fmt: skip

    add_training_options(parser, ["cosine", "linear"])
    add_evidence_options(parser.add_argument_group("evidence"))
    add_process_options(add_machine_options(parser))


def run(arguments: argparse.Namespace) -> None:
    """One run directory for each training and seed, then the tables."""
    from energyalign.experiments.incremental.config import IncrementalRequest

    run_request(IncrementalRequest.from_arguments(arguments), arguments)
