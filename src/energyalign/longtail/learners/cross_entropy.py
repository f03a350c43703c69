"""CE: plain training, and what every other learner is told by its differences from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.nn import functional as F

from energyalign.nets.network import Network, make_network
from energyalign.train.loop import EpochBatches, Loss
from energyalign.train.recipe import Recipe

if TYPE_CHECKING:
    from energyalign.longtail.setting import Setting


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy on the data as they come. Other learners inherit from it and override what they do differently.

    A learner is a frozen dataclass whose fields are its hyper-parameters, with the originals' values as defaults; they
    are part of the run's config. Everything random comes from torch's global generator, which the training loop seeds
    for every batch, or from ``setting.seed``.
    """

    name: ClassVar[str] = "ce"
    head: ClassVar[str | None] = None
    """The head that belongs to it, whatever the cell says."""
    scale: ClassVar[float | None] = None
    """The scale of its cosine head."""

    part_of_cell: ClassVar[float] = 1.0
    """How much of the cell's epochs it takes; a second stage has the rest."""

    def backbone(self, name: str) -> str:
        """The network it needs instead of the cell's."""
        return name

    def recipe(self, recipe: Recipe) -> Recipe:
        """Its own schedule, where the original has one that belongs to the method."""
        return recipe

    def network(self, setting: Setting) -> Network:
        """The untrained network. `setting.config` says which, after `backbone`, `head` and `scale` had their say."""
        config = setting.config
        return make_network(
            config.backbone, setting.train.n_classes, head=config.head, scale=config.scale,
            learned_scale=config.learned_scale, in_channels=setting.in_channels,
        )  # fmt: skip

    def parameters(self, network: Network) -> Iterable[Any]:
        """What the optimiser gets: parameters, or groups of them."""
        parameters: Iterable[Any] = network.parameters()
        return parameters

    def batches(self, setting: Setting) -> EpochBatches:
        """What the loss gets."""
        return setting.loader()

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        """``loss(model, batch, epoch)``, the mean over the batch; epochs count from 1."""
        return _cross_entropy


def _cross_entropy(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
    return F.cross_entropy(model(batch.images), batch.labels)
