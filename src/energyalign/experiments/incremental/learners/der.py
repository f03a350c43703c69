"""DER: a new backbone in every step, beside the former ones, which are frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.learners.balanced import (
    divide_epochs,
    refuse_no_exemplars,
    train_balanced_head,
)
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
class ExpandingLearner(FineTuning):
    """Base class of DER and FOSTER, which add a backbone and train in two stages."""

    head: ClassVar[str | None] = "linear"
    constant_weight_decay: ClassVar[bool] = True

    def check(self, config: IncrementalConfig) -> None:
        refuse_no_exemplars(config)
        if config.backbone == "identity":
            raise EnergyAlignError(
                f"{self.name} adds a backbone for new classes, and identity has nothing to train: give --backbone mlp, "
                "or leave it out."
            )


@dataclass(frozen=True)
class DER(ExpandingLearner):
    """``CE + weight * CE_aux``, then a new head on balanced classes.

    1. The head sees the features of all backbones; CE is over all classes seen. An auxiliary head sees only the newest
       features and separates the new classes from one another and from all old ones, which are one class to it. That
       makes the new features complement the old ones. The new backbone starts as a copy of the last.
    2. The head is re-initialised and trained alone by ``CE(logits / temperature)``, on as many images of each new
       class as of an old one, chosen by herding.

    The first step is cross-entropy. The stages share the epochs of the cell in the original's proportion, 170 to 30.
    In the second, the learning rate falls to a tenth half-way, and there are at least 480 batches, as in the original
    on CIFAR. As in the released code, heads have no bias. Weight decay is the same in every step, since each trains
    another backbone.

    Pruning by channel masks, which is optional and only makes the network smaller, is left out: like the released code,
    this is the paper's line "DER (w/o P)", and the network grows by one backbone a step. As in the paper, the head
    keeps its weights for old features; the released settings re-initialise them. Their warm-up of ten epochs, after
    which both heads are re-initialised again, is left out.

    Attributes
    ----------
    weight : float, default 1
        Weight of the auxiliary loss.
    temperature : float, default 5
        Temperature of the second stage.

    References
    ----------
    Yan, Xie and He 2021, DER: Dynamically Expandable Representation for Class Incremental Learning.
    """

    name: ClassVar[str] = "der"
    grows: ClassVar[bool] = True

    weight: float = 1.0
    temperature: float = 5.0

    def start(self, step: Step, before: Network | None) -> Network:
        from energyalign.experiments.nets.expanding import ExpandingBackbone, ExpandingNetwork, expand

        if before is None:
            first = super().start(step, None)
            first.head.bias = None
            return ExpandingNetwork(ExpandingBackbone([first.backbone]), first.head)
        step.seed_torch("head")
        return expand(before.backbone.parts, before.head, step.n_seen, n_auxiliary=1 + step.n_new, bias=False)

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        if step.number == 1:
            super().learn(step, network, teacher)
            return
        first, second = divide_epochs(step.recipe, STAGE_1, STAGE_2)
        step.train_network(network, self.loss(step, teacher), recipe=first)
        step.seed_torch("second head")
        network.head.reset_parameters()
        recipe = replace(second, schedule=Steps((16,), 0.1, STAGE_2))
        train_balanced_head(step, network, self.softened_loss, recipe, min_batches=MIN_BATCHES)

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
        """Return the loss of the first stage."""
        from torch.nn import functional as F

        if step.number == 1:
            return super().loss(step, teacher)
        n_old = step.n_old

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, auxiliary = model(batch.images, with_auxiliary=True)
            old_or_which = (batch.labels - n_old + 1).clamp(min=0)  # 0 for all old classes
            return F.cross_entropy(logits, batch.labels) + self.weight * F.cross_entropy(auxiliary, old_or_which)

        return loss

    def softened_loss(self, model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
        """Compute the loss of the second stage."""
        from torch.nn import functional as F

        return F.cross_entropy(model(batch.images) / self.temperature, batch.labels)
