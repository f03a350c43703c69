"""A second stage on as many images of new classes as there are of old ones: EEIL, PODNet, DER; and its epochs."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.memory import herded_lists
from energyalign.experiments.train.recipe import Recipe

if TYPE_CHECKING:
    from energyalign.experiments.incremental.config import IncrementalConfig
    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss


def refuse_no_exemplars(config: IncrementalConfig) -> None:
    """Refuse a memory that keeps nothing."""
    if config.memory.selection == "none":
        raise EnergyAlignError(
            f"{config.learner.name} balances new classes against the exemplars of old ones, and the memory none keeps "
            "nothing of old classes: give a memory, for example --memory random, or leave it out."
        )


def divided(recipe: Recipe, first: int, second: int) -> tuple[Recipe, Recipe]:
    """Two stages that share the epochs of the cell in this proportion, at least one epoch for each."""
    epochs = max(1, round(recipe.epochs * first / (first + second)))
    return recipe.lasting(epochs), recipe.lasting(max(1, recipe.epochs - epochs))


def slower(recipe: Recipe, times: int) -> Recipe:
    """The same recipe with a learning rate that is so many times smaller."""
    optimizer: Any = recipe.optimizer
    return replace(recipe, optimizer=replace(optimizer, lr=optimizer.lr / times))


def balanced_places(step: Step, network: Network) -> Ints:
    """Which of the training images the second stage sees: of each new class as many as of the old one with most."""
    from energyalign.experiments.engine.outputs import outputs

    new, old = np.flatnonzero(step.is_new), np.flatnonzero(~step.is_new)
    features = outputs(network.backbone, step.train.subset(new), workers=step.workers, device=step.fabric.device)
    each = np.full(step.n_new, step.counts[: step.n_old].max())
    chosen = herded_lists(new, step.train.labels[new], range(step.n_old, step.n_seen), features, each)
    return np.concatenate([*chosen, old])


def train_balanced_head(step: Step, network: Network, loss: Loss, recipe: Recipe, *, min_batches: int) -> None:
    """Train the head alone, in place, on a backbone that stays as it is, statistics too.

    For the epochs of the recipe, or as many more as it takes to see so many batches: the few exemplars of a small
    memory are seen in very few, after which a new head would still predict one class.
    """
    from energyalign.experiments.engine.outputs import for_inference
    from energyalign.experiments.nets.network import FrozenBackbone, Network

    images = step.train.subset(balanced_places(step, for_inference(network)))
    batches = step.loader(images, purpose="balanced")
    step.train_network(
        Network(FrozenBackbone(copy.deepcopy(network.backbone)), network.head), loss, stage="balanced",
        recipe=recipe.lasting(max(recipe.epochs, math.ceil(min_batches / batches.n_batches))), batches=batches,
    )  # fmt: skip
