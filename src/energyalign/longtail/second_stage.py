"""A second training behind the first: the head again, its scales, or the whole network with another head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from energyalign.data.samplers import class_aware
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.trained import Trained
from energyalign.nets.network import Network
from energyalign.train.describe import described
from energyalign.train.loop import Loss, Training
from energyalign.train.recipe import Recipe
from energyalign.train.run_directory import opened


def epochs_of_cell(config: LongTailConfig, part: float) -> int:
    """A part of the epochs that the cell has, at least one."""
    return max(1, round(part * config.recipe.epochs / config.learner.part_of_cell))


def train_second_stage(
    trained: Trained, network: Network, corrector: Any, *, name: str, recipe: Recipe, parameters: Iterable[Any],
    loss: Loss,
) -> None:  # fmt: skip
    """Train a network on balanced classes in a run directory of its own; interrupted, it goes on where it was.

    The classes take turns, four images a visit, as in Decoupling and OLTR.

    Parameters
    ----------
    trained : Trained
        The first stage, which is left as it is.
    network : Network
        Trained in place, and in evaluation mode afterwards.
    corrector : dataclass
        Its fields are part of the config of the stage.
    name : str
        Of the folder below that of the first stage.
    recipe : Recipe
    parameters : iterable
        What is trained.
    loss : callable
    """
    setting = trained.setting
    order = class_aware(setting.train.labels, setting.seed(name), per_visit=4)
    config = setting.config.to_json() | {"second_stage": described(corrector) | {"recipe": described(recipe)}}
    with opened(trained.run.path / name, config, trained.fabric) as run:
        trained.reporter.note(f"{name}: a second stage of {recipe.epochs} epochs on balanced classes.")
        training = Training(
            trained.fabric, network, parameters=parameters, batches=setting.loader(order=order, purpose=name),
            loss=loss, recipe=recipe, run=run, seed=setting.seed(name), reporter=trained.reporter.stage(name),
            compile=setting.config.compile,
        )  # fmt: skip
        training.finish()
    network.float().eval()  # whatever the precision of the training
