"""`energyalign longtail`: the paper's long-tailed experiments."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.longtail.presets import Preset

_EXAMPLES = """\
examples:
  energyalign longtail digits                                         in seconds, with nothing to download
  energyalign longtail cifar100 --imbalance 100 --seed 0 1 2 --data-root ~/data
  energyalign longtail cifar100 --quick --head linear                 a small network, sized for two cores
  energyalign longtail digits --clusters 1 2 4 8                      influence of the number of clusters
  energyalign longtail digits --evidence-size 5 20 50 --evidence-policy one none training    and of the evidence
  energyalign longtail folder:my_images --epochs 30                   your own images, as imbalanced as they are
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "longtail",
        help="train on a long-tailed set, align, and compare with the paper",
        description="Train a network on a long-tailed data set and measure it on a balanced test set: as it is, with "
        "logit adjustment, and with energy aligning. Stopped by Ctrl-C, the same command goes on where it was.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="a name of `energyalign list datasets` or `energyalign list presets`")
    add("--imbalance", type=float, metavar="N", help="largest class over smallest (default: 100, or the preset's)")
    add("--seed", type=int, nargs="+", default=[0], metavar="N", help="one run for each (default: 0)")
    add("--epochs", type=int, metavar="N", help="train for so long, the schedule scaled (default: the preset's)")
    add("--quick", action="store_true", help="a smaller network and fewer epochs")
    add("--data-root", metavar="DIR", help="where the data set is (default: data)")
    add("--out", metavar="DIR", help="where the runs go (default: runs/ and the name of cell and options)")

    network = parser.add_argument_group("network and training")
    add = network.add_argument
    add("--backbone", metavar="NAME", help="default: the preset's")
    add("--head", choices=["cosine", "linear"], help="default: cosine, as in the paper")
    add("--scale", type=float, metavar="S", help="of the cosine head (default: 16)")
    add("--learned-scale", action="store_true", help="let the scale be learned")
    add("--optimizer", choices=["sgd", "sgd-plain", "adam"], help="sgd-plain is without momentum (default: sgd)")
    add("--batch-size", type=int, metavar="N", help="default: the preset's")
    add("--profile", metavar="NAME", help="exponential, step or pareto (default: exponential)")
    add("--split-seed", type=int, metavar="N", help="of the long-tail cut (default: 0, the published subset)")

    measure = parser.add_argument_group("correctors and evidence")
    add = measure.add_argument
    add("--corrector", nargs="+", metavar="NAME", help="default: raw la-post-hoc ea ea-marginal ea-auto")
    add("--clusters", type=int, nargs="+", default=[], metavar="M", help="also energy aligning with M Jenks clusters")
    add("--evidence-size", type=int, nargs="+", default=[50], metavar="N", help="images of each class (default: 50)")
    add(
        "--evidence-policy", nargs="+", default=["one"], metavar="NAME",
        help="how they are augmented: by one of the paper's ten transformations (default), two, half, none, crop-flip, "
        "or as in training",
    )  # fmt: skip

    machine = parser.add_argument_group("machine")
    add = machine.add_argument
    add("--accelerator", default="auto", metavar="NAME", help="auto, cpu, cuda, mps")
    add("--precision", default="32-true", metavar="NAME", help="32-true, bf16-mixed, ... (default: 32-true)")
    add("--workers", type=int, default=2, metavar="N", help="processes that read image files (default: 2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """One run directory for each seed, then the table."""
    from lightning.fabric import Fabric

    from energyalign.cli.tables import make_console, print_table
    from energyalign.longtail.correctors import CORRECTORS
    from energyalign.longtail.table import table_of
    from energyalign.train.interruption import Interrupted

    correctors = list(arguments.corrector or CORRECTORS) + [f"ea-M{m}" for m in arguments.clusters]
    preset = _preset(arguments)
    fabric = Fabric(accelerator=arguments.accelerator, devices=1, precision=arguments.precision)
    rows = []
    try:
        for seed in arguments.seed:
            rows += _one_seed(arguments, preset, seed, correctors, fabric)
    except Interrupted as stop:
        command = shlex.join(["energyalign", *sys.argv[1:]])
        print(f"\nStopped and saved. To go on:\n  {command}", file=sys.stderr)
        raise SystemExit(128 + stop.signal_number) from None
    title = f"{preset.name}, {preset.backbone}, {preset.head} head, {preset.recipe.epochs} epochs"
    print_table(make_console(sys.stdout), *table_of(rows), title=title)
    for concern in dict.fromkeys(
        f"{row['corrector']}, seed {row['seed']}: {c}" for row in rows for c in row["concerns"]
    ):
        print(f"warning: {concern}", file=sys.stderr)


def _one_seed(
    arguments: argparse.Namespace, preset: Preset, seed: int, correctors: list[str], fabric: Any
) -> list[Any]:
    from pathlib import Path

    from energyalign.longtail.config import LongTailConfig
    from energyalign.longtail.evidence import EvidencePlan
    from energyalign.longtail.experiment import LongTailExperiment
    from energyalign.train.reporter import Narrator

    plans = [EvidencePlan(size, policy) for policy in arguments.evidence_policy for size in arguments.evidence_size]
    given = {name: getattr(arguments, name) for name in ("profile", "split_seed", "scale", "learned_scale")}
    config = LongTailConfig.from_preset(
        preset, seed=seed, **{name: value for name, value in given.items() if value is not None}
    )
    folder = Path(arguments.out or f"runs/{_folder_name(arguments, preset)}") / f"seed-{seed}"
    experiment = LongTailExperiment(
        config, data_root=arguments.data_root, fabric=fabric, workers=arguments.workers,
        reporter=Narrator(f"{preset.name} seed {seed}", scalars=folder / "tensorboard"),
    )  # fmt: skip
    return experiment.run(folder, correctors, *plans)


def _folder_name(arguments: argparse.Namespace, preset: Preset) -> str:
    """The cell and whatever was asked of its training: another training goes to another folder."""
    asked = {
        name: getattr(arguments, name)
        for name in (
            "quick", "epochs", "backbone", "head", "scale", "learned_scale", "optimizer", "batch_size", "profile",
            "split_seed",
        )
    }  # fmt: skip
    words = [preset.name]
    for name, value in asked.items():
        if value is not None and value is not False:
            words.append(name if value is True else f"{name}-{value}")
    return "-".join(words).replace("_", "-")


def _preset(arguments: argparse.Namespace) -> Preset:
    """The preset of the dataset, changed as the options say."""
    from dataclasses import replace

    from energyalign.longtail.presets import preset_for
    from energyalign.train.recipe import SGD, Adam

    preset = preset_for(arguments.dataset, arguments.imbalance)
    if arguments.quick:
        preset = preset.quick()
    if arguments.epochs is not None:
        preset = replace(preset, recipe=preset.recipe.lasting(arguments.epochs))
    recipe = preset.recipe
    if arguments.optimizer == "adam":
        recipe = replace(recipe, optimizer=Adam())
    elif arguments.optimizer == "sgd-plain":
        recipe = replace(recipe, optimizer=SGD(recipe.optimizer.lr, momentum=0.0))
    if arguments.batch_size is not None:
        recipe = replace(recipe, batch_size=arguments.batch_size)
    return replace(
        preset, recipe=recipe, backbone=arguments.backbone or preset.backbone, head=arguments.head or preset.head
    )
