"""Fine-tuning: plain training on what is there, and what every other learner is told by its differences from."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.nn import functional as F

from energyalign.nets.heads import grown
from energyalign.nets.network import Network, make_network
from energyalign.train.loop import Loss
from energyalign.train.recipe import Recipe

if TYPE_CHECKING:
    from energyalign.incremental.config import IncrementalConfig
    from energyalign.incremental.step import Step


@dataclass(frozen=True)
class FineTuning:
    """Cross-entropy over all classes seen, on new images and exemplars. Other learners override what they do otherwise.

    A learner is a frozen dataclass whose fields are its hyper-parameters, with the originals' values as defaults; they
    are part of the run's config. Everything random comes from torch's global generator, which the training loop seeds
    for every batch, or from ``step.seed``.
    """

    name: ClassVar[str] = "fine-tune"
    head: ClassVar[str | None] = None
    """The head that belongs to it, whatever the cell says."""
    has_teacher: ClassVar[bool] = False
    """Whether it learns from the network of the step before, corrected as the method says."""
    starts_anew: ClassVar[bool] = False
    """Whether each step begins with a new network. Then there is no reason for weight decay to fall from step to step:
    in the paper it does because one and the same network is trained again and again."""

    def backbone(self, name: str) -> str:
        """The network it needs instead of the cell's."""
        return name

    def recipe(self, recipe: Recipe) -> Recipe:
        """Its own schedule, where the original has one that belongs to the method."""
        return recipe

    def check(self, config: IncrementalConfig) -> None:
        """Refuse, before any training, settings that it cannot work with."""

    def start(self, step: Step, before: Network | None) -> Network:
        """The network with which a step begins: a new one, or that of the step before with a larger head."""
        if before is not None and not self.starts_anew:
            network = copy.deepcopy(before)
            step.seed_torch("head")
            network.head = grown(network.head, step.n_seen)
            return network
        config = step.config
        step.seed_torch("network")
        network = make_network(
            config.backbone, step.n_seen, head=config.head, scale=config.scale, learned_scale=config.learned_scale,
            in_channels=step.in_channels,
        )  # fmt: skip
        network.to(step.fabric.device)
        return network

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        """Train the network in place. The teacher gives logits of the old classes; there is none in the first step."""
        step.train_network(network, self.loss(step, teacher))

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:  # noqa: ARG002
        """``loss(model, batch, epoch)``, the mean over the batch; epochs count from 1."""
        return cross_entropy


def cross_entropy(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
    """Over all classes seen."""
    return F.cross_entropy(model(batch.images), batch.labels)
