"""Fine-tuning, base class of all class-incremental learners; and joint training, the upper bound."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.engine.config import Learner

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.config import IncrementalConfig
    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class FineTuning(Learner):
    """Cross-entropy over all classes seen, on new images and exemplars.

    Other learners inherit from it and override what they do differently.
    """

    name: ClassVar[str] = "fine-tune"
    has_teacher: ClassVar[bool] = False
    """Whether it learns from the network of the step before, corrected as the method says."""
    starts_anew: ClassVar[bool] = False
    """Whether each step begins with a new network."""
    needs_no_negative_features: ClassVar[bool] = False
    """Whether it needs features that are never negative, such as the outputs of a ReLU."""
    grows: ClassVar[bool] = False
    """Whether the network gets more features in every step."""
    constant_weight_decay: ClassVar[bool] = False
    """Whether every step has the weight decay of the recipe. In the paper it falls from step to step, because the same
    network is trained again and again."""

    def check(self, config: IncrementalConfig) -> None:
        """Raise an error, before any training, if the learner cannot work with these settings."""

    def start(self, step: Step, before: Network | None) -> Network:
        """Return the initial network of a step: a new network, or the previous step's network with a larger head."""
        from energyalign.experiments.engine.trained import network_for
        from energyalign.experiments.nets.heads import grow

        if before is not None and not self.starts_anew:
            network = copy.deepcopy(before)
            step.seed_torch("head")
            network.head = grow(network.head, step.n_seen)
            return network
        step.seed_torch("network")
        network = network_for(step.config, step.train, step.n_seen)
        network.to(step.fabric.device)
        return network

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        """Train the network in place. The teacher returns logits of the old classes; it is None in the first step."""
        step.train_network(network, self.loss(step, teacher))

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:  # noqa: ARG002
        """Return ``loss(model, batch, epoch)``, the mean over the batch; epochs count from 1."""
        from energyalign.experiments.losses.cross_entropy import cross_entropy

        return cross_entropy


@dataclass(frozen=True)
class Joint(FineTuning):
    """A new network in every step, trained on all images of all classes seen; used with the memory ``all``."""

    name: ClassVar[str] = "joint"
    starts_anew: ClassVar[bool] = True
    constant_weight_decay: ClassVar[bool] = True
