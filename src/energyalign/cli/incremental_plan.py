"""What the options of `energyalign incremental` ask for: cell, rows, and the trainings they share."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

from energyalign.cli.experiment_options import OF_ANY_TRAINING, changed_recipe, evidence_plans, given_options
from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.evidence import EvidencePlan
from energyalign.incremental.config import IncrementalConfig
from energyalign.incremental.correctors import STANDARD
from energyalign.incremental.learners import find_learner
from energyalign.incremental.memory_plan import MemoryPlan
from energyalign.incremental.methods import METHODS, Method, config_of, find_method, row_of
from energyalign.incremental.presets import Preset, preset_for

OF_THE_TRAINING = (*OF_ANY_TRAINING, "order")


class PlannedRun(NamedTuple):
    """A training over all steps, and what is to be done to its networks."""

    config: IncrementalConfig
    correctors: list[str]

    @property
    def folder(self) -> str:
        """Its folder below --out: what tells it from the other trainings of the same cell."""
        config = self.config
        words = [config.learner.name, "" if config.head == "cosine" else config.head]
        words += [str(config.memory).replace(":", "-"), "" if config.fed_back == "raw" else config.fed_back]
        words += ["held-out"] if config.held_out and config.fed_back == "raw" else []
        if config.evidence not in (None, EvidencePlan()):  # another teacher
            words += [config.evidence.policy, str(config.evidence.per_class)]
        return "-".join(filter(None, words))


def chosen_preset(arguments: argparse.Namespace) -> Preset:
    """The preset of the dataset, changed as the options say."""
    preset = preset_for(arguments.dataset, arguments.steps)
    if arguments.quick:
        preset = preset.quick()
    if arguments.subset not in (None, preset.subset):  # other classes are another cell, and none of the paper's
        preset = replace(preset, name=f"{preset.name}-{arguments.subset.replace(':', '-')}", subset=arguments.subset)
    return replace(
        preset, recipe=changed_recipe(arguments, preset.recipe), backbone=arguments.backbone or preset.backbone,
        order=arguments.order or preset.order,
    )  # fmt: skip


def planned_runs(arguments: argparse.Namespace, preset: Preset, default_memory: int) -> list[PlannedRun]:
    """Each training once, whatever the number of rows that share it; with the first seed.

    Parameters
    ----------
    default_memory : int
        How many exemplars belong to the data set.
    """
    groups: dict[IncrementalConfig, list[str]] = {}
    for method in _methods(arguments):
        config = _config(arguments, preset, method, default_memory)
        # The raw network is the control of every other row, and costs nothing.
        groups.setdefault(config, ["raw"]).append(method.corrector)
    extra = _extra(arguments)
    return [PlannedRun(config, list(dict.fromkeys([*correctors, *extra]))) for config, correctors in groups.items()]


def _methods(arguments: argparse.Namespace) -> list[Method]:
    """The rows: those with a name, or one for each corrector of the composition."""
    if arguments.method:
        if arguments.learner:
            raise EnergyAlignError("a method has a learner of its own: give --method or --learner, not both.")
        return [find_method(name) for name in (METHODS if "all" in arguments.method else arguments.method)]
    row = row_of(find_learner(arguments.learner or "distill").name)._replace(head=None)
    return [row._replace(corrector=corrector) for corrector in arguments.corrector or [row.corrector]]


def _extra(arguments: argparse.Namespace) -> list[str]:
    """Correctors behind every run: those asked for beside methods, or the standard ones where nothing was asked for."""
    if arguments.method:
        return list(arguments.corrector)
    return [] if arguments.corrector or arguments.learner else list(STANDARD)


def _config(arguments: argparse.Namespace, preset: Preset, method: Method, default_memory: int) -> IncrementalConfig:
    return config_of(
        method._replace(head=arguments.head or method.head), preset, seed=arguments.seed[0],
        memory=_memory(arguments.memory, method, default_memory), fed_back=arguments.fed_back,
        evidence=evidence_plans(arguments)[0],
        **given_options(arguments, "scale", "learned_scale", "precision", "compile"),
    )  # fmt: skip


def _memory(text: str | None, method: Method, default_total: int) -> MemoryPlan:
    """That of the method, changed as --memory says. Methods that keep nothing, or everything, have no number."""
    own = MemoryPlan.parse(method.memory, default_total)
    if text is None:
        return own
    if text.isdecimal():
        return MemoryPlan(own.selection, int(text)) if own.has_number else own
    return MemoryPlan.parse(text, default_total)
