"""Second stages of training, and a base class for stages that train a head."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core.errors import count_of
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_steps
from energyalign.experiments.data.order import class_aware
from energyalign.experiments.train.recipe import SGD, Cosine, Recipe, describe

if TYPE_CHECKING:
    from torch import nn

    from energyalign.experiments.engine.config import RunConfig
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss


def epochs_of_cell(config: RunConfig, part: float) -> int:
    """Return a share of the epochs of the cell, at least one."""
    return max(1, round(part * config.recipe.epochs / config.learner.part_of_cell))


def train_second_stage(
    trained: Trained, network: Network, corrector: Any, *, name: str, recipe: Recipe, parameters: Iterable[Any],
    loss: Loss, balanced: bool = True,
) -> None:  # fmt: skip
    """Train a network in place, in its own run directory `name`, which can be resumed.

    If `balanced`, classes take turns with four images each, as in Decoupling and OLTR. The fields of the corrector are
    part of the stage's config.
    """
    from energyalign.experiments.train.loop import TrainingLoop
    from energyalign.experiments.train.run_directory import open_run

    ground = trained.ground
    order = class_aware(ground.train.labels, ground.seed(name), per_visit=4) if balanced else None
    sampled = "balanced classes" if balanced else "the data as they are"
    config = ground.config.to_json() | {"second_stage": describe(corrector) | {"recipe": describe(recipe)}}
    with open_run(trained.run.path / name, config, trained.fabric, within=trained.run) as run:
        trained.reporter.note(f"{name}: a second stage of {count_of(recipe.epochs, 'epoch')} on {sampled}.")
        training = TrainingLoop(
            trained.fabric, network, parameters=parameters, batches=ground.loader(order=order, purpose=name),
            loss=loss, recipe=recipe, run=run, seed=ground.seed(name), reporter=trained.reporter.stage(name),
            compile=ground.config.compile,
        )  # fmt: skip
        training.finish()
    network.float().eval()  # whatever the precision of the training


@dataclass(frozen=True)
class HeadStage(Corrector):
    """Cross-entropy with class-aware sampling on a frozen backbone, with a cosine schedule to 0.

    Override `loss` and `balanced` to train differently. Batch size, rate and weight decay are the same as in the first
    stage; on iNaturalist rate and weight decay are the original's, 0.2 and 1e-4. As in the original, the backbone's
    batch statistics follow the new sampling.

    Attributes
    ----------
    part, part_on_inaturalist : float
        Share of the epochs of the cell.
    max_on_inaturalist : int
        Maximum number of epochs on iNaturalist: the original trains equally long after 90 and after 200 epochs.
    frozen_statistics : bool, default False
        Keep the batch statistics of the first stage.
    """

    name: ClassVar[str] = ""
    """Name of the stage's folder."""
    balanced: ClassVar[bool] = True
    """Whether classes take turns."""

    part: float
    part_on_inaturalist: float
    max_on_inaturalist: int
    frozen_statistics: bool = False

    def check(self, setting: RunSetting) -> None:
        refuse_steps(setting, self.name)

    def train_head(self, trained: Trained, head: nn.Module, parameters: Iterable[Any]) -> Corrected:
        """Train these parameters of the head; return the network with it."""
        from energyalign.experiments.nets.network import FrozenBackbone, Network

        backbone = copy.deepcopy(trained.network.backbone)
        network = Network(FrozenBackbone(backbone, moving_statistics=not self.frozen_statistics), head)
        recipe = self.recipe(trained.config)
        train_second_stage(
            trained, network, self, name=f"{self.name}-frozen" if self.frozen_statistics else self.name, recipe=recipe,
            parameters=parameters, loss=self.loss(trained), balanced=self.balanced,
        )  # fmt: skip
        return Corrected(network, details={"epochs": recipe.epochs})

    def loss(self, trained: Trained) -> Loss:  # noqa: ARG002
        """Return ``loss(model, batch, epoch)``, as a learner does."""
        from energyalign.experiments.losses.cross_entropy import cross_entropy

        return cross_entropy

    def recipe(self, config: RunConfig) -> Recipe:
        """Return the recipe of the second stage."""
        if config.dataset != "inaturalist18":
            return replace(config.recipe, epochs=epochs_of_cell(config, self.part), schedule=Cosine())
        epochs = min(epochs_of_cell(config, self.part_on_inaturalist), self.max_on_inaturalist)
        own = replace(config.recipe.with_weight_decay(1e-4), epochs=epochs, schedule=Cosine())
        return replace(own, optimizer=replace(own.optimizer, lr=0.2)) if isinstance(own.optimizer, SGD) else own
