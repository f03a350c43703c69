"""DER: a new backbone in every step, beside the former ones, which are frozen."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.learners.balanced import divided, refuse_no_exemplars, train_balanced_head
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning
from energyalign.experiments.train.recipe import Steps

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.config import IncrementalConfig
    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss

STAGE_1, STAGE_2 = 170, 30  # epochs of the original
MIN_BATCHES = 480  # 30 epochs of 2,000 images in batches of 128


@dataclass(frozen=True)
class DER(FineTuning):
    """``CE + weight * CE_aux``, then a new head on balanced classes.

    1. The head sees the features of all backbones; CE is over all classes seen. An auxiliary head sees those of the new
       backbone alone and tells the new classes apart, and from all old ones, which are one class to it: so that the
       new features are of use for what the old ones cannot do. The new backbone begins as a copy of the last.
    2. The head is drawn anew and trained alone, by ``CE(logits / temperature)`` on as many images of each new class as
       there are of an old one, chosen by herding.

    The first step is cross-entropy. Both stages share the epochs of the cell as 170 and 30 of the original's 200; the
    rate of the second falls to a tenth half-way, and it has at least the 480 batches of the original on CIFAR. Heads
    have no bias, as in the released code, and weight decay is the same in every step, since every step trains another
    backbone.

    This is DER without masks and pruning, which the released code leaves out as well: the network grows by a backbone a
    step. As in the paper, the head goes on from the weights of the step before for old features; the released settings
    draw it anew. Their warm-up of ten epochs, after which both heads are drawn once more, is left out.

    Attributes
    ----------
    weight : float
        Of the auxiliary loss.
    temperature : float
        Of the second stage.

    References
    ----------
    Yan, Xie and He 2021, DER: Dynamically Expandable Representation for Class Incremental Learning.
    """

    name: ClassVar[str] = "der"
    head: ClassVar[str | None] = "linear"
    grows: ClassVar[bool] = True
    constant_weight_decay: ClassVar[bool] = True

    weight: float = 1.0
    temperature: float = 5.0

    def check(self, config: IncrementalConfig) -> None:
        """It needs exemplars, and backbones that differ."""
        refuse_no_exemplars(config)
        refuse_identity(config)

    def start(self, step: Step, before: Network | None) -> Network:
        """A network of one backbone, or that of the step before and a copy of its last one."""
        from torch import nn

        from energyalign.experiments.nets.expanding import ExpandingBackbone, ExpandingNetwork, widened

        if before is None:
            first = super().start(step, None)
            first.head.bias = None
            return ExpandingNetwork(ExpandingBackbone([first.backbone]), first.head)
        parts = copy.deepcopy(before.backbone.parts)
        newest = copy.deepcopy(parts[-1])
        backbone = ExpandingBackbone([*parts, newest])
        step.seed_torch("head")
        head = widened(before.head, backbone.n_features, step.n_seen)
        auxiliary = nn.Linear(newest.n_features, 1 + step.n_new, bias=False).to(step.fabric.device)
        return ExpandingNetwork(backbone, head, auxiliary)

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        """One stage in the first step, two in all others."""
        if step.number == 1:
            super().learn(step, network, teacher)
            return
        first, second = divided(step.recipe, STAGE_1, STAGE_2)
        step.train_network(network, self.loss(step, teacher), recipe=first)
        step.seed_torch("second head")
        network.head.reset_parameters()
        recipe = replace(second, schedule=Steps((16,), 0.1, STAGE_2))
        train_balanced_head(step, network, self.softened, recipe, min_batches=MIN_BATCHES)

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
        """Of the first stage."""
        from torch.nn import functional as F

        if step.number == 1:
            return super().loss(step, teacher)
        n_old = step.n_old

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, auxiliary = model(batch.images, with_auxiliary=True)
            old_or_which = (batch.labels - n_old + 1).clamp(min=0)  # 0 for all old classes
            return F.cross_entropy(logits, batch.labels) + self.weight * F.cross_entropy(auxiliary, old_or_which)

        return loss

    def softened(self, model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
        """The loss of the second stage."""
        from torch.nn import functional as F

        return F.cross_entropy(model(batch.images) / self.temperature, batch.labels)


def refuse_identity(config: IncrementalConfig) -> None:
    """Refuse a backbone of which a second one would say the same."""
    if config.backbone == "identity":
        raise EnergyAlignError(
            f"{config.learner.name} adds a backbone for new classes, and identity has nothing to train: give "
            "--backbone mlp, or leave it out."
        )
