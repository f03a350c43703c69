"""`energyalign incremental`: the paper's class-incremental experiments."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from energyalign.cli.experiment_options import (
    add_evidence_options,
    add_machine_options,
    add_process_options,
    add_run_options,
    add_training_options,
)

if TYPE_CHECKING:
    from energyalign.experiment.rows import Row

_EXAMPLES = """\
examples:
  energyalign incremental digits                                      5 steps of 2 classes, with nothing to download
  energyalign incremental digits --method all --seed 0 1 2            every row of the paper's tables
  energyalign incremental cifar100 --steps 10 --method ea wa bic --data-root ~/data
  energyalign incremental cifar100 --steps 10 --learner distill --memory random:2000 --corrector ea
  energyalign incremental cifar100 --steps 5 --subset first:20 --memory 200 --quick     a budget for two cores
  energyalign incremental digits --learner distill --corrector raw ea prior --fed-back raw      all of one training
  energyalign incremental digits --corrector il2m scail --from runs/digits-il-5/fine-tune-linear-random-40/seed-0
  energyalign incremental imagenet100 --order seed:7 --data-root /data/imagenet
  energyalign incremental folder:my_images --steps 4 --epochs 30      your own images
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "incremental",
        help="learn classes step by step, align, and compare with the paper",
        description="Train a network on classes that come in steps, with few images of old ones kept, and measure it "
        "after each step on all classes seen: as it is, with energy aligning, and with any other method of the paper's "
        "tables. A method is a learner, a memory and a corrector. Stopped by Ctrl-C, the same command goes on where it "
        "was.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "dataset",
        metavar="DATASET",
        help="a name of `energyalign list datasets` or `... list presets`; imagenet100; folder:PATH, lists:PATH, "
        "parquet:PATH",
    )
    add("--steps", type=int, metavar="N", help="how often new classes come (default: 10, or the preset's)")
    add("--order", metavar="NAME", help="of the classes: seed1993, icarl, natural, seed:N (default: the preset's)")
    add("--subset", metavar="NAME", help="of the classes: all, first:N, first100, seed1993 (default: the preset's)")
    add_run_options(parser)

    slots = parser.add_argument_group("three slots", "A method of your own, or a change of all methods asked for.")
    add = slots.add_argument
    add(
        "--learner",
        metavar="NAME",
        help="loss and head, see `energyalign list methods` (default: distill)",
    )
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
        help="several are rows (default: that of the learner's row, ea)",
    )
    add(
        "--fed-back", metavar="NAME",
        help="the corrector whose result the next step's teacher has, for all rows (default: each row's own)",
    )  # fmt: skip

    add_training_options(parser, ["cosine", "linear"])
    add_evidence_options(parser.add_argument_group("evidence"))
    add_process_options(add_machine_options(parser))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """One run directory for each training and seed, then the tables."""
    from energyalign.cli.ending import ending_together, is_first
    from energyalign.cli.incremental_runs import rows_of_all_runs, rows_of_one_run
    from energyalign.cli.stopping import resumable

    with resumable(arguments), ending_together():
        rows, title = (rows_of_all_runs if arguments.source is None else rows_of_one_run)(arguments)
        if is_first():
            _show(rows, title)


def _show(rows: list[Row], title: str) -> None:
    from energyalign.cli.tables import make_console, print_table
    from energyalign.incremental.table import step_table, summary_table

    console = make_console(sys.stdout)
    print(f"Top-1 accuracy on all classes seen, %: {title}")  # a title would be folded to the width of the table
    print_table(console, *step_table(rows))
    columns, lines = summary_table(rows)
    print_table(console, columns, lines)
    print("averages: over the steps from the second on, as in the paper; old, new, forgetting: after the last step.")
    if "paper" in columns:
        print(
            "Paper: averages as printed there. All rows but ea are quoted in it from other papers, with networks, "
            "orders and subsets of their own; a difference is shown for ea, where all settings are the paper's."
        )
    for row in rows:
        for concern in row["concerns"]:
            print(
                f"warning: {row['learner']}, {row['corrector']}, seed {row['seed']}, step {row['step']}: {concern}",
                file=sys.stderr,
            )
