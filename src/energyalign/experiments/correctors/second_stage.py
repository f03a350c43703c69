"""A second training behind the first: the head again, its scales, or the whole network with another head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from energyalign.experiments.data.order import class_aware
from energyalign.experiments.train.recipe import describe

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import RunConfig
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss
    from energyalign.experiments.train.recipe import Recipe


def epochs_of_cell(config: RunConfig, part: float) -> int:
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
    from energyalign.experiments.train.loop import Training
    from energyalign.experiments.train.run_directory import open_run

    ground = trained.ground
    order = class_aware(ground.train.labels, ground.seed(name), per_visit=4)
    config = ground.config.to_json() | {"second_stage": describe(corrector) | {"recipe": describe(recipe)}}
    with open_run(trained.run.path / name, config, trained.fabric) as run:
        trained.reporter.note(f"{name}: a second stage of {recipe.epochs} epochs on balanced classes.")
        training = Training(
            trained.fabric, network, parameters=parameters, batches=ground.loader(order=order, purpose=name),
            loss=loss, recipe=recipe, run=run, seed=ground.seed(name), reporter=trained.reporter.stage(name),
            compile=ground.config.compile,
        )  # fmt: skip
        training.finish()
    network.float().eval()  # whatever the precision of the training
