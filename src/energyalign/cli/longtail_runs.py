"""The runs of `energyalign longtail`, one after the other, each in its run directory."""

from __future__ import annotations

import argparse
from pathlib import Path

from lightning.fabric import Fabric

from energyalign.cli.experiment_options import evidence_plans, out_folder
from energyalign.cli.launching import launch, make_fabric, narrator
from energyalign.cli.longtail_plan import OF_THE_TRAINING, chosen_preset, make_config, planned_trainings
from energyalign.cli.process_counts import process_counts
from energyalign.cli.stopping import command_line
from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.rows import Row
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.data import LongTailData, load_data
from energyalign.longtail.experiment import LongTailExperiment
from energyalign.longtail.learners import CrossEntropy
from energyalign.train.checkpoint import newest_checkpoint
from energyalign.train.run_directory import RunDirectory


def rows_of_all_runs(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of every training and seed, and a title."""
    preset, plans = chosen_preset(arguments), evidence_plans(arguments)
    counts = process_counts(arguments.devices, arguments.nodes)
    fabric = make_fabric(arguments.accelerator, arguments.precision or "32-true", counts)
    out = out_folder(arguments, preset.name, OF_THE_TRAINING)
    trainings, seeds = planned_trainings(arguments, preset.head, CrossEntropy()), list(dict.fromkeys(arguments.seed))
    configs = {(t, s): make_config(arguments, preset, trainings[t], s) for t in range(len(trainings)) for s in seeds}
    data = load_data(next(iter(configs.values())), arguments.data_root)  # the same for all
    launch(fabric, counts, arguments.given)
    experiments = {}
    for (number, seed), config in configs.items():
        folder = out / trainings[number].folder(preset.head) / f"seed-{seed}"
        experiments[folder] = _experiment(arguments, config, data, fabric, folder), trainings[number].correctors
    for experiment, correctors in experiments.values():
        experiment.check(correctors)  # all of them, before hours are spent on the first
    rows = [
        row
        for folder, (experiment, correctors) in experiments.items()
        for row in experiment.run(folder, correctors, *plans)
    ]
    heads = sorted({config.head for config in configs.values()})
    head = f"{heads[0]} head" if len(heads) == 1 else f"heads {', '.join(heads)}"
    return rows, f"{preset.name}, {preset.backbone}, {head}, {preset.recipe.epochs} epochs; runs in {out}"


def rows_of_one_run(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of methods that share the training of a run that is finished."""
    folder = Path(arguments.source)
    config = _config_of_finished(folder)
    if arguments.dataset not in (config.dataset, config.name):
        raise EnergyAlignError(f"{folder} is a run on {config.dataset}, not on {arguments.dataset}.")
    asked = [name for name in (*OF_THE_TRAINING, "head", "imbalance", "out") if getattr(arguments, name)]
    asked += ["seed"] if arguments.seed != [0] else []
    if asked:
        options = ", ".join("--" + name.replace("_", "-") for name in asked)
        raise EnergyAlignError(f"the training of {folder} is done: leave out {options}.")
    correctors: list[str] = []
    for training in planned_trainings(arguments, config.head, config.learner):
        if training.learner != config.learner:
            raise EnergyAlignError(
                f"{folder} was trained by {config.learner.name}; {training.learner.name} needs a training of its own: "
                "leave out --from, or that method."
            )
        correctors += training.correctors
    counts = process_counts(arguments.devices, arguments.nodes)
    data, fabric = load_data(config, arguments.data_root), make_fabric(arguments.accelerator, config.precision, counts)
    launch(fabric, counts, arguments.given)
    experiment = _experiment(arguments, config, data, fabric, folder)
    rows = experiment.run(folder, list(dict.fromkeys(correctors)), *evidence_plans(arguments))
    return rows, f"{config.name}, {config.backbone}, {config.head} head, {config.recipe.epochs} epochs; run in {folder}"


def _config_of_finished(folder: Path) -> LongTailConfig:
    run = RunDirectory(folder)
    stored = run.read_json("config.json")
    if stored is None:
        raise EnergyAlignError(f"{folder} is no run directory: there is no config.json in it.")
    config = LongTailConfig.from_json(stored)
    checkpoint, _ = newest_checkpoint(run.checkpoints, run.config_sha256)
    if checkpoint is None or checkpoint.position.epoch <= config.recipe.epochs:
        raise EnergyAlignError(f"the training of {folder} is not finished: run the command that began it first.")
    return config


def _experiment(
    arguments: argparse.Namespace, config: LongTailConfig, data: LongTailData, fabric: Fabric, folder: Path
) -> LongTailExperiment:
    title = f"{config.name} {config.learner.name} ({config.head}) seed {config.seed}"
    reporter = narrator(fabric, title, scalars=folder / "tensorboard")
    return LongTailExperiment(
        config, data=data, fabric=fabric, workers=arguments.workers, reporter=reporter,
        command=command_line(arguments),
    )  # fmt: skip
