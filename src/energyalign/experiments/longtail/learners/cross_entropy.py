"""Plain cross-entropy; base class of all long-tailed learners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.engine.config import Learner
from energyalign.experiments.train.recipe import SGD, Recipe

if TYPE_CHECKING:
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import EpochBatches, Loss


@dataclass(frozen=True)
class CrossEntropy(Learner):
    """Cross-entropy on the data as they are. Other learners inherit from it and override what they do differently."""

    name: ClassVar[str] = "ce"
    scale: ClassVar[float | None] = None
    """The scale of the learner's cosine head; None for the scale of the config."""

    def network(self, setting: Setting) -> Network:
        """Make the untrained network that `setting.config` describes."""
        from energyalign.experiments.engine.trained import network_for

        return network_for(setting.config, setting.train, setting.train.n_classes)

    def parameters(self, network: Network) -> Iterable[Any]:
        """Return what the optimiser trains: parameters, or groups of them."""
        parameters: Iterable[Any] = network.parameters()
        return parameters

    def batches(self, setting: Setting) -> EpochBatches:
        """Return the batches that the loss is computed on."""
        return setting.loader()

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        """Return ``loss(model, batch, epoch)``, the mean over the batch; epochs count from 1."""
        from energyalign.experiments.losses.cross_entropy import cross_entropy

        return cross_entropy


def with_nesterov(recipe: Recipe) -> Recipe:
    """Turn on Nesterov's momentum if the optimiser is SGD with a momentum."""
    if not isinstance(recipe.optimizer, SGD):
        return recipe
    return replace(recipe, optimizer=replace(recipe.optimizer, nesterov=recipe.optimizer.momentum > 0))
