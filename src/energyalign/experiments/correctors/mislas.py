"""The second stage of MiSLAS: head and scales trained on balanced classes, with label-aware smoothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.correctors.second_stage import HeadStage

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.correctors.base import Corrected
    from energyalign.experiments.engine.config import EvidencePlan, RunConfig
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.train.loop import Loss
    from energyalign.experiments.train.recipe import Recipe

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "cifar100-lt-100": {"most_common": 0.4, "rarest": 0.1, "slower": 0.2},
    "cifar100-lt-50": {"most_common": 0.3, "rarest": 0.0, "slower": 0.1},
    "cifar100-lt-10": {"most_common": 0.2, "rarest": 0.0, "slower": 0.1},
    "cifar10-lt-100": {"most_common": 0.3, "rarest": 0.0, "slower": 0.5, "frozen_statistics": True},
    "cifar10-lt-50": {"most_common": 0.2, "rarest": 0.0, "slower": 0.2, "frozen_statistics": True},
    "cifar10-lt-10": {"most_common": 0.1, "rarest": 0.0, "slower": 0.2, "frozen_statistics": True},
}
"""Settings of the cells that do not use the defaults (ImageNet-LT and iNaturalist)."""


@dataclass(frozen=True)
class LabelAwareSmoothing(HeadStage):
    """``z_i = s_i (w_i . x + b_i)``: scales s are learned from 1, and the head is trained further at a lower rate.

    Trained with class-aware sampling by ``L = (1 - e_y) (-log p_y) + e_y mean_j (-log p_j)``, where the amount e_y
    grows with the images of the class (`label_aware_amounts`). The backbone's batch statistics follow the new sampling
    (shifted batch normalisation), except on CIFAR-10, as published. The first stage is the learner ``mixup``.

    Amounts and rates are the published values for the cell; other cells use the values for ImageNet-LT. As in the
    released code, the smoothed part is shared by all classes, including the true one. The original trains for 10 epochs
    after 180 or 200; here training takes a twentieth of the epochs of the cell, on CIFAR with a weight decay of 2e-4.

    Attributes
    ----------
    most_common, rarest : float, default 0.3 and 0
        Amounts of the classes with the most and with the fewest images.
    slower : float, default 0.05
        Learning rate of the head relative to the rate of the scales.

    References
    ----------
    Zhong et al. 2021, Improving Calibration for Long-Tailed Recognition.
    """

    name: ClassVar[str] = "mislas"
    part: float = 1 / 20
    part_on_inaturalist: float = 1 / 20
    max_on_inaturalist: int = 10
    most_common: float = 0.3
    rarest: float = 0.0
    slower: float = 0.05

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        from energyalign.experiments.nets.corrected_heads import ScaledHead

        head = ScaledHead(trained.copied_head(), trained.n_seen)
        head.head.requires_grad_(True)
        of_cell = replace(self, **PUBLISHED.get(trained.config.name, {}))
        parameters = [{"params": [head.scales]}, {"params": [*head.head.parameters()], "lr_factor": of_cell.slower}]
        corrected = of_cell.train_head(trained, head, parameters)
        return corrected._replace(details={**corrected.details, "scales": head.scales.tolist()})

    def loss(self, trained: Trained) -> Loss:
        import torch

        counts = torch.tensor(trained.counts, dtype=torch.float32, device=trained.fabric.device)
        amounts = label_aware_amounts(counts, self.most_common, self.rarest)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return label_aware_loss(model(batch.images), batch.labels, amounts)

        return loss

    def recipe(self, config: RunConfig) -> Recipe:
        recipe = super().recipe(config)
        return recipe.with_weight_decay(2e-4) if config.dataset in ("cifar10", "cifar100") else recipe


def label_aware_amounts(counts: torch.Tensor, most_common: float, rarest: float) -> torch.Tensor:
    """Return ``e_K + (e_1 - e_K) sin(pi/2 (n_j - n_K) / (n_1 - n_K))``: e_1 for the largest class, e_K for the rarest.

    If all classes have the same number of images, all amounts are e_K.
    """
    import torch

    fewest = counts.min()
    place = (counts - fewest) / (counts.max() - fewest).clamp_min(1.0)
    return rarest + (most_common - rarest) * torch.sin(math.pi / 2 * place)


def label_aware_loss(logits: torch.Tensor, labels: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
    """Return the batch mean of ``(1 - e_y) (-log p_y) + e_y mean_j (-log p_j)``."""
    from torch.nn import functional as F

    minus_log = -F.log_softmax(logits, dim=1)
    own, amount = minus_log.gather(1, labels[:, None])[:, 0], amounts[labels]
    return ((1.0 - amount) * own + amount * minus_log.mean(dim=1)).mean()
