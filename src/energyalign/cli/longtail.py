"""`energyalign longtail`: the paper's long-tailed experiments."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from energyalign.longtail.config import LongTailConfig
    from energyalign.longtail.data import LongTailData
    from energyalign.longtail.evidence import EvidencePlan
    from energyalign.longtail.experiment import LongTailExperiment
    from energyalign.longtail.learners import Learner
    from energyalign.longtail.presets import Preset
    from energyalign.longtail.rows import Row

_EXAMPLES = """\
examples:
  energyalign longtail digits                                         in seconds, with nothing to download
  energyalign longtail cifar100 --imbalance 100 --seed 0 1 2 --data-root ~/data
  energyalign longtail cifar100 --quick --head linear                 a small network, sized for two cores
  energyalign longtail digits --method ce ldam-drw tau-norm ea        rows of the paper's tables, by name
  energyalign longtail digits --method ldam-drw --corrector raw ea    any corrector behind any training
  energyalign longtail digits --method ce tau-norm crt ea --from runs/digits-lt-50/ce/seed-0      all of one network
  energyalign longtail digits --clusters 1 2 4 8                      influence of the number of clusters
  energyalign longtail digits --evidence-size 5 20 50 --evidence-policy one none training    and of the evidence
  energyalign longtail folder:my_images --epochs 30                   your own images, as imbalanced as they are
"""


# Options that make another training; the head has a folder of its own, since methods bring theirs.
_OF_THE_TRAINING = (
    "quick", "epochs", "backbone", "scale", "learned_scale", "optimizer", "batch_size", "profile", "split_seed",
    "precision",
)  # fmt: skip


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "longtail",
        help="train on a long-tailed set, align, and compare with the paper",
        description="Train a network on a long-tailed data set and measure it on a balanced test set: as it is, with "
        "logit adjustment, with energy aligning, and with any other method of the paper's tables. Stopped by Ctrl-C, "
        "the same command goes on where it was.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="a name of `energyalign list datasets` or `energyalign list presets`")
    add("--imbalance", type=float, metavar="N", help="largest class over smallest (default: 100, or the preset's)")
    add("--method", nargs="+", default=[], metavar="NAME", help="rows of `energyalign list methods`, or all")
    add("--seed", type=int, nargs="+", default=[0], metavar="N", help="one run for each (default: 0)")
    add("--epochs", type=int, metavar="N", help="train for so long, the schedule scaled (default: the preset's)")
    add("--quick", action="store_true", help="a smaller network and fewer epochs")
    add("--data-root", metavar="DIR", help="where the data set is (default: data)")
    add("--out", metavar="DIR", help="where the runs go (default: runs/ and the name of cell and options)")
    add("--from", dest="source", metavar="RUN", help="measure the network of this run directory, train none")

    network = parser.add_argument_group("network and training")
    add = network.add_argument
    add("--backbone", metavar="NAME", help="default: the preset's")
    add(
        "--head",
        choices=["cosine", "linear", "capsule", "causal-norm"],
        help="default: that of the method, or cosine as in the paper",
    )
    add("--scale", type=float, metavar="S", help="of the cosine head (default: 16)")
    add("--learned-scale", action="store_true", help="let the scale be learned")
    add("--optimizer", choices=["sgd", "sgd-plain", "adam"], help="sgd-plain is without momentum (default: sgd)")
    add("--batch-size", type=int, metavar="N", help="default: the preset's")
    add("--profile", metavar="NAME", help="exponential (default), step, pareto, or a JSON file: class name to count")
    add("--split-seed", type=int, metavar="N", help="of the long-tail cut (default: 0, the published subset)")

    measure = parser.add_argument_group("correctors and evidence")
    add = measure.add_argument
    add(
        "--corrector", nargs="+", default=[], metavar="NAME",
        help="put these behind every training (default, without --method: raw la-post-hoc ea ea-marginal ea-auto)",
    )  # fmt: skip
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
    add("--precision", metavar="NAME", help="32-true, bf16-mixed, ... (default: 32-true)")
    add("--workers", type=int, default=2, metavar="N", help="processes that read image files (default: 2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """One run directory for each training and seed, then the table."""
    from energyalign.train.interruption import Interrupted

    try:
        rows, title = _all_rows(arguments)
    except (Interrupted, KeyboardInterrupt) as stop:
        command = shlex.join(["energyalign", *sys.argv[1:]])
        print(f"\nStopped and saved. To go on:\n  {command}", file=sys.stderr)
        signal_number = stop.signal_number if isinstance(stop, Interrupted) else 2
        raise SystemExit(128 + signal_number) from None
    # Correctors put behind several trainings are a table of their own.
    _show(rows, title, matrix=len(arguments.method) > 0 and len(arguments.corrector) > 0)


class _Training(NamedTuple):
    """A training, and what is to be done to the network that comes of it."""

    learner: Learner
    head: str
    correctors: list[str]

    def folder(self, cell_head: str) -> str:
        """Its folder below --out: the learner, and the head if it is not that of the cell."""
        own = self.learner.head is not None or self.head == cell_head
        return self.learner.name if own else f"{self.learner.name}-{self.head}"


def _all_rows(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    from energyalign.longtail.data import load_data

    if arguments.source is not None:
        return _rows_of_one_run(arguments)
    preset = _preset(arguments)
    fabric = _fabric(arguments.accelerator, arguments.precision or "32-true")
    plans = _plans(arguments)
    out = Path(arguments.out or f"runs/{_folder_name(arguments, preset)}")
    rows: list[Row] = []
    data = None  # all trainings and seeds have the same
    for training in _trainings(arguments, preset.head):
        for seed in dict.fromkeys(arguments.seed):
            folder = out / training.folder(preset.head) / f"seed-{seed}"
            config = _config(arguments, preset, training, seed)
            data = data or load_data(config, arguments.data_root)
            experiment = _experiment(config, data, arguments.workers, fabric, folder)
            rows += experiment.run(folder, training.correctors, *plans)
    return rows, f"{preset.name}, {preset.backbone}, {preset.recipe.epochs} epochs"


def _rows_of_one_run(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of methods that share the training of a run that is there already."""
    from energyalign.core.errors import EnergyAlignError
    from energyalign.longtail.config import LongTailConfig
    from energyalign.longtail.data import load_data
    from energyalign.train.run_directory import RunDirectory

    folder = Path(arguments.source)
    stored = RunDirectory(folder).read_json("config.json")
    if stored is None:
        raise EnergyAlignError(f"{folder} is no run directory: there is no config.json in it.")
    config = LongTailConfig.from_json(stored)
    if arguments.dataset not in (config.dataset, config.name):
        raise EnergyAlignError(f"{folder} is a run on {config.dataset}, not on {arguments.dataset}.")
    asked = [
        name
        for name in (*_OF_THE_TRAINING, "head", "imbalance", "out")
        if getattr(arguments, name) not in (None, False)
    ]
    if asked:
        options = ", ".join("--" + name.replace("_", "-") for name in asked)
        raise EnergyAlignError(f"the training of {folder} is done: leave out {options}.")
    correctors = []
    for training in _trainings(arguments, config.head):
        if training.learner != config.learner:
            raise EnergyAlignError(
                f"{folder} was trained by {config.learner.name}; {training.learner.name} needs a training of its own: "
                "leave out --from, or that method."
            )
        correctors += training.correctors
    data, fabric = load_data(config, arguments.data_root), _fabric(arguments.accelerator, config.precision)
    experiment = _experiment(config, data, arguments.workers, fabric, folder)
    rows = experiment.run(folder, list(dict.fromkeys(correctors)), *_plans(arguments))
    return rows, f"{config.name}, {config.backbone}, {config.head} head, {config.recipe.epochs} epochs"


def _trainings(arguments: argparse.Namespace, cell_head: str) -> Iterator[_Training]:
    """Each training once, whatever the number of rows that share it."""
    from energyalign.longtail.correctors import STANDARD
    from energyalign.longtail.learners import find_learner
    from energyalign.longtail.methods import METHODS, find_method

    extra = [*arguments.corrector, *(f"ea-M{m}" for m in arguments.clusters)]
    names = list(METHODS) if arguments.method == ["all"] else arguments.method
    groups: dict[tuple[str, str], list[str]] = {}
    for method in map(find_method, names):
        head = arguments.head or method.head or cell_head
        groups.setdefault((method.learner, head), []).append(method.corrector)
    if not groups:
        groups["ce", arguments.head or cell_head] = [] if arguments.corrector else list(STANDARD)
    for (learner, head), correctors in groups.items():
        yield _Training(find_learner(learner), head, list(dict.fromkeys([*correctors, *extra])))


def _plans(arguments: argparse.Namespace) -> list[EvidencePlan]:
    from energyalign.longtail.evidence import EvidencePlan

    sizes, policies = dict.fromkeys(arguments.evidence_size), dict.fromkeys(arguments.evidence_policy)
    return [EvidencePlan(size, policy) for policy in policies for size in sizes]


def _config(arguments: argparse.Namespace, preset: Preset, training: _Training, seed: int) -> LongTailConfig:
    from dataclasses import replace

    from energyalign.longtail.config import LongTailConfig

    given = {name: getattr(arguments, name) for name in ("split_seed", "scale", "learned_scale", "precision")}
    given["profile"] = _profile(arguments.profile)
    return LongTailConfig.from_preset(
        replace(preset, head=training.head), training.learner, seed=seed,
        **{name: value for name, value in given.items() if value is not None},
    )  # fmt: skip


def _experiment(
    config: LongTailConfig, data: LongTailData, workers: int, fabric: Any, folder: Path
) -> LongTailExperiment:
    from energyalign.longtail.experiment import LongTailExperiment
    from energyalign.train.reporter import Narrator

    title = f"{config.name} {config.learner.name} seed {config.seed}"
    return LongTailExperiment(
        config, data=data, fabric=fabric, workers=workers,
        reporter=Narrator(title, scalars=folder / "tensorboard"),
    )  # fmt: skip


def _show(rows: list[Row], title: str, *, matrix: bool) -> None:
    from energyalign.cli.tables import make_console, print_table
    from energyalign.longtail.table import as_in_the_paper, matrix_of, table_of

    columns, lines = table_of(rows)
    console = make_console(sys.stdout)
    print_table(console, columns, lines, title=title)
    if matrix:
        print_table(console, *matrix_of(rows), title="trainings and correctors")
    if any(line[-2] for line in lines) and not all(map(as_in_the_paper, rows)):
        print("The paper's numbers are of its own network, schedule and cut; see `energyalign list presets`.")
    for row in rows:
        for concern in row["concerns"]:
            print(f"warning: {row['learner']}, {row['corrector']}, seed {row['seed']}: {concern}", file=sys.stderr)


def _fabric(accelerator: str, precision: Any) -> Any:
    from lightning.fabric import Fabric

    from energyalign.core.errors import EnergyAlignError

    try:
        return Fabric(accelerator=accelerator, devices=1, precision=precision)
    except (ValueError, RuntimeError) as error:
        raise EnergyAlignError(
            f"cannot train with --accelerator {accelerator} and --precision {precision}: {error}"
        ) from error


def _folder_name(arguments: argparse.Namespace, preset: Preset) -> str:
    """The cell and whatever was asked of its trainings: another setting goes to another folder."""
    import re

    words = [preset.name]
    for name in _OF_THE_TRAINING:
        value = getattr(arguments, name)
        if value is not None and value is not False:
            words.append(name if value is True else f"{name}-{value}")
    return re.sub(r"[^\w.-]+|_", "-", "-".join(words))


def _profile(name: str | None) -> Any:
    """The profile of that name, or the counts of a JSON file."""
    if name is None or not name.endswith(".json"):
        return name
    from energyalign.core.errors import EnergyAlignError
    from energyalign.core.strict_json import parse_json

    try:
        counts = parse_json(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read the counts of {name}: {error}.") from error
    if not isinstance(counts, dict):
        raise EnergyAlignError(f"{name} must hold a JSON object from class names to numbers of training images.")
    return counts


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
    return replace(preset, recipe=recipe, backbone=arguments.backbone or preset.backbone)
