"""The runs of `energyalign incremental`, one after the other, each in its run directory."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from energyalign.cli.experiment_options import evidence_plans, out_folder
from energyalign.cli.incremental_plan import OF_THE_TRAINING, chosen_preset, planned_runs
from energyalign.cli.launching import launch, make_fabric, narrator
from energyalign.cli.process_counts import process_counts
from energyalign.cli.stopping import command_line
from energyalign.core.errors import EnergyAlignError
from energyalign.data.sources import open_source
from energyalign.experiment.rows import Row
from energyalign.incremental.config import IncrementalConfig
from energyalign.incremental.correctors import STANDARD
from energyalign.incremental.experiment import IncrementalExperiment
from energyalign.incremental.finished_step import is_finished
from energyalign.incremental.presets import selection_of
from energyalign.incremental.stream import load_stream, make_stream
from energyalign.train.run_directory import RunDirectory


def rows_of_all_runs(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of every training and seed, and a title."""
    preset, plans = chosen_preset(arguments), evidence_plans(arguments)
    counts = process_counts(arguments.devices, arguments.nodes)
    fabric = make_fabric(arguments.accelerator, arguments.precision or "32-true", counts)
    out = out_folder(arguments, preset.name, OF_THE_TRAINING)
    source = open_source(preset.dataset, arguments.data_root)
    stream = make_stream(
        source.load("train"), source.load("test"), subset=preset.subset, order=preset.order, n_steps=preset.n_steps
    )  # the same for all
    planned = planned_runs(arguments, preset, preset.memory_for(len(stream.train), stream.train.n_classes))
    launch(fabric, counts, arguments.given)
    experiments = {}
    for run in planned:
        for seed in dict.fromkeys(arguments.seed):
            folder = out / run.folder / f"seed-{seed}"
            config = replace(run.config, seed=seed)
            reporter = narrator(fabric, f"{config.name} {run.folder} seed {seed}", scalars=folder / "tensorboard")
            experiments[folder] = (
                run.correctors,
                IncrementalExperiment(
                    config,
                    stream=stream,
                    fabric=fabric,
                    reporter=reporter,
                    workers=arguments.workers,
                    command=command_line(arguments),
                ),
            )
    for correctors, experiment in experiments.values():
        experiment.check(correctors)  # all of them, before hours are spent on the first
    rows = [
        row
        for folder, (correctors, experiment) in experiments.items()
        for row in experiment.run(folder, correctors, *plans)
    ]
    return rows, f"{preset.name}, {preset.backbone}, {preset.recipe.epochs} epochs a step; runs in {out}"


def rows_of_one_run(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """Rows of correctors behind a run that is finished."""
    folder = Path(arguments.source)
    run = RunDirectory(folder)
    stored = run.read_json("config.json")
    if stored is None:
        raise EnergyAlignError(f"{folder} is no run directory: give the folder of a seed, such as {folder}/seed-0.")
    config = IncrementalConfig.from_json(stored)
    names = (config.dataset, config.name)
    if arguments.dataset not in names and selection_of(arguments.dataset) != (config.dataset, config.subset):
        raise EnergyAlignError(f"{folder} is a run on {config.dataset}, not on {arguments.dataset}.")
    if not all(is_finished(run, step) for step in range(1, config.n_steps + 1)):
        raise EnergyAlignError(f"the run in {folder} is not finished: run the command that began it first.")
    asked = [
        name
        for name in (*OF_THE_TRAINING, "head", "steps", "subset", "out", "method", "learner", "memory", "fed_back")
        if getattr(arguments, name)
    ] + (["seed"] if arguments.seed != [0] else [])
    if asked:
        options = ", ".join("--" + name.replace("_", "-") for name in asked)
        raise EnergyAlignError(f"the training of {folder} is done: leave out {options}; only --corrector can be new.")
    counts = process_counts(arguments.devices, arguments.nodes)
    fabric = make_fabric(arguments.accelerator, config.precision, counts)
    stream = load_stream(config, arguments.data_root)
    launch(fabric, counts, arguments.given)
    experiment = IncrementalExperiment(
        config, stream=stream, fabric=fabric, reporter=narrator(fabric, config.name),
        workers=arguments.workers, command=command_line(arguments),
    )  # fmt: skip
    usual = ["raw"] if config.memory.selection == "none" else STANDARD
    correctors = list(dict.fromkeys(["raw", *(arguments.corrector or usual)]))
    rows = experiment.run(folder, correctors, *evidence_plans(arguments))
    return rows, f"{config.name}, {config.backbone}, {config.recipe.epochs} epochs a step; run in {folder}"
