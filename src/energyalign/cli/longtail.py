"""`energyalign longtail`: the paper's long-tailed experiments."""

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
    "Train a network on a long-tailed data set and measure it on a balanced test set: raw, with logit adjustment, with "
    "energy aligning, and with any other method of the paper's tables. After Ctrl-C, the same command resumes."
)
EXAMPLES = """\
examples:
  energyalign longtail digits                                         in seconds, nothing to download
  energyalign longtail cifar100 --imbalance 100 --seed 0 1 2 --data-root ~/data
  energyalign longtail cifar100 --quick --head linear                 a small network, sized for two cores
  energyalign longtail digits --method ce ldam-drw tau-norm ea        rows of the paper's tables, by name
  energyalign longtail digits --method ldam-drw --corrector raw ea    any corrector behind any training
  energyalign longtail digits --method crt lws ncm --from runs/digits-lt-50/ce/seed-*       reuse trained networks
  energyalign longtail digits --clusters 1 2 4 8                      vary the number of clusters
  energyalign longtail digits --evidence-size 5 20 50 --evidence-policy one none training    vary the evidence
  energyalign longtail folder:my_images --epochs 30                   your own images, as imbalanced as they are
  energyalign longtail folder:my_images --backbone timm:resnet50 --weights resnet50.safetensors --freeze     a new head
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("dataset", metavar="DATASET",
        help="a name from `energyalign list datasets` or `energyalign list presets`; or your own data: folder:PATH, "
        "lists:PATH, parquet:PATH, features:PATH")  # fmt: skip
    add("--imbalance", type=float, metavar="N",
        help="size of the largest class divided by the size of the smallest (default: 100, or the "
        "preset's)")  # fmt: skip
    add_run_options(parser)
    add = add_training_options(parser, ["cosine", "linear", "capsule", "causal-norm"]).add_argument
    add("--profile", metavar="NAME",
        help="shape of the long tail: exponential (default), step, pareto, or a .json file from class name to "
        "count")  # fmt: skip
    add("--split-seed", type=int, metavar="N",
        help="seed that picks the images of the long-tailed subset (default: 0, the published subset)")  # fmt: skip

    add("--held-out", type=float, metavar="SHARE",
        help="hold out this share of the training images of each class from the training, for correctors that need "
        "images the network has not seen (default: 0.1 for repair where there are no validation images, "
        "else 0)")  # fmt: skip

    measure = parser.add_argument_group("correctors and evidence")
    add = measure.add_argument
    add(
        "--corrector", nargs="+", default=[], metavar="NAME",
        help="apply these to every trained network (default without --method: raw logit-adjustment ea ea-marginal "
        "ea-auto)",
    )  # fmt: skip
    add("--clusters", type=int, nargs="+", default=[], metavar="M",
        help="also apply energy aligning with M Jenks clusters")  # fmt: skip
    add_evidence_options(measure)
    add_process_options(add_machine_options(parser))


def run(arguments: argparse.Namespace) -> None:
    """Run every training and seed in its own run directory, then print the tables."""
    from energyalign.experiments.longtail.config import LongTailRequest

    run_request(LongTailRequest.from_arguments(arguments), arguments)
