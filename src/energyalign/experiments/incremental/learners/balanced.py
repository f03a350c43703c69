"""Second stages on balanced classes, which EEIL, PODNet, DER and FOSTER share."""

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
    """Raise an error if the memory keeps nothing."""
    if config.memory.selection == "none":
        raise EnergyAlignError(
            f"{config.learner.name} balances new classes against the exemplars of old ones, and the memory none keeps "
            "no exemplars: give a memory, for example --memory random, or leave it out."
        )


def divide_epochs(recipe: Recipe, first: int, second: int) -> tuple[Recipe, Recipe]:
    """Divide the epochs between two stages in this proportion, at least one epoch each."""
    epochs = max(1, round(recipe.epochs * first / (first + second)))
    return recipe.lasting(epochs), recipe.lasting(max(1, recipe.epochs - epochs))


def lower_rate(recipe: Recipe, divisor: int) -> Recipe:
    """Divide the learning rate."""
    optimizer: Any = recipe.optimizer
    return replace(recipe, optimizer=replace(optimizer, lr=optimizer.lr / divisor))


def choose_balanced(step: Step, network: Network) -> Ints:
    """Choose the training images of the second stage, as positions: all exemplars, and as many of each new class.

    Each new class gets as many images as the old class with the most exemplars has, chosen by herding.
    """
    from energyalign.experiments.engine.outputs import outputs

    new, old = np.flatnonzero(step.is_new), np.flatnonzero(~step.is_new)
    features = outputs(network.backbone, step.train.subset(new), workers=step.workers, device=step.fabric.device)
    each = np.full(step.n_new, step.counts[: step.n_old].max())
    chosen = herded_lists(new, step.train.labels[new], range(step.n_old, step.n_seen), features, each)
    return np.concatenate([*chosen, old])


def train_balanced_head(step: Step, network: Network, loss: Loss, recipe: Recipe, *, min_batches: int) -> None:
    """Train the head in place on a frozen backbone, batch statistics included.

    The training lasts for the epochs of the recipe, or longer until it has seen `min_batches`: a small memory fills
    only a few batches, after which a new head would still predict a single class.
    """
    from energyalign.experiments.engine.outputs import for_inference
    from energyalign.experiments.nets.network import FrozenBackbone, Network

    images = step.train.subset(choose_balanced(step, for_inference(network)))
    batches = step.loader(images, purpose="balanced")
    step.train_network(
        Network(FrozenBackbone(copy.deepcopy(network.backbone)), network.head), loss, stage="balanced",
        recipe=recipe.lasting(max(recipe.epochs, math.ceil(min_batches / batches.n_batches))), batches=batches,
    )  # fmt: skip
