"""What the options of `energyalign longtail` ask for: cell, trainings, evidence, device."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, NamedTuple

from energyalign.cli.experiment_options import OF_ANY_TRAINING, changed_recipe, given_options
from energyalign.core.errors import EnergyAlignError
from energyalign.core.strict_json import read_json_file
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import STANDARD
from energyalign.longtail.learners import Learner, find_learner
from energyalign.longtail.methods import METHODS, find_method
from energyalign.longtail.presets import Preset, preset_for

OF_THE_TRAINING = (*OF_ANY_TRAINING, "profile", "split_seed")


class PlannedTraining(NamedTuple):
    """A training, and what is to be done to the network that comes of it."""

    learner: Learner
    head: str
    correctors: list[str]

    def folder(self, cell_head: str) -> str:
        """Its folder below --out: the learner, and the head if it is not that of the cell."""
        own = self.learner.head is not None or self.head == cell_head
        return self.learner.name if own else f"{self.learner.name}-{self.head}"


def planned_trainings(arguments: argparse.Namespace, cell_head: str, default: Learner) -> list[PlannedTraining]:
    """Each training once, whatever the number of rows that share it; `default` is that of a command without methods."""
    extra = [*arguments.corrector, *(f"ea-M{m}" for m in arguments.clusters)]
    names = list(METHODS) if "all" in arguments.method else arguments.method
    groups: dict[tuple[Learner, str], list[str]] = {}
    for method in map(find_method, names):
        head = arguments.head or method.head or cell_head
        groups.setdefault((find_learner(method.learner), head), []).append(method.corrector)
    if not groups:
        groups[default, arguments.head or cell_head] = [] if arguments.corrector else list(STANDARD)
    return [
        PlannedTraining(learner, head, list(dict.fromkeys([*correctors, *extra])))
        for (learner, head), correctors in groups.items()
    ]


def chosen_preset(arguments: argparse.Namespace) -> Preset:
    """The preset of the dataset, changed as the options say."""
    preset = preset_for(arguments.dataset, arguments.imbalance)
    if arguments.quick:
        preset = preset.quick()
    recipe = changed_recipe(arguments, preset.recipe)
    return replace(preset, recipe=recipe, backbone=arguments.backbone or preset.backbone)


def make_config(arguments: argparse.Namespace, preset: Preset, training: PlannedTraining, seed: int) -> LongTailConfig:
    """What fixes one training with one seed."""
    given = given_options(arguments, "split_seed", "scale", "learned_scale", "precision", "compile")
    if arguments.profile is not None:
        given["profile"] = _profile(arguments.profile)
    return LongTailConfig.from_preset(replace(preset, head=training.head), training.learner, seed=seed, **given)


def _profile(name: str) -> Any:
    """The profile of that name, or the counts of a JSON file."""
    if not name.endswith(".json"):
        return name

    try:
        counts = read_json_file(name)
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read the counts of {name}: {error}.") from error
    if not isinstance(counts, dict):
        raise EnergyAlignError(f"{name} must hold a JSON object from class names to numbers of training images.")
    return counts
