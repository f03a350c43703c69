"""A backbone that stays as it is after the first step, under a head made of statistics of its features."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from energyalign.experiments.incremental.learners.fine_tuning import FineTuning

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network


@dataclass(frozen=True)
class HeadOfStatistics(FineTuning):
    """Base of streaming LDA and RanPAC.

    The first step trains the backbone with a linear head by cross-entropy, as other rows do, unless it has nothing to
    train (``identity``, for features of an encoder). From then on features never change, so what earlier classes added
    to the statistics stays right, and no step looks at their images: not even at exemplars, if there is a memory.
    """

    head: ClassVar[str | None] = "linear"

    @abstractmethod
    def make_head(self, n_features: int, n_classes: int) -> Any:
        """A head without samples, random numbers from torch's global generator."""

    @abstractmethod
    def add(self, step: Step, head: Any, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Take the samples of new classes into the head."""

    def start(self, step: Step, before: Network | None) -> Network:
        """A new network, or that of the step before with room for the new classes."""
        if before is not None:
            network = copy.deepcopy(before)
            network.head = before.head.with_classes(step.n_seen)
            return network
        network = super().start(step, None)
        step.seed_torch("statistics")
        network.head = self.make_head(network.backbone.n_features, step.n_seen).to(step.fabric.device)
        return network

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        """Train the backbone in the first step, then add up what it says of the new images."""
        import torch

        from energyalign.experiments.engine.outputs import for_inference, outputs

        if step.number == 1 and list(network.backbone.parameters()):
            self._train_backbone(step, network, teacher)
        new = step.train.subset(np.flatnonzero(step.is_new))
        backbone = for_inference(network).backbone
        features = outputs(backbone, new, workers=step.workers, device=step.fabric.device)
        self.add(step, network.head, torch.from_numpy(features), torch.from_numpy(new.labels))

    def _train_backbone(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        from energyalign.experiments.nets.heads import make_head
        from energyalign.experiments.nets.network import Network

        step.seed_torch("head")
        head = make_head(step.config.head, network.backbone.n_features, step.n_seen).to(step.fabric.device)
        step.train_network(Network(network.backbone, head), self.loss(step, teacher))
