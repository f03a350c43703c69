"""CB-Focal: sigmoid focal loss, weighted by the effective number of images."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss
    from energyalign.experiments.train.recipe import Recipe


@dataclass(frozen=True)
class ClassBalancedFocal(CrossEntropy):
    """``L = w_y sum_j -(1 - p_j)^gamma log p_j`` with one sigmoid per class, see `sigmoid_focal_loss`.

    ``w_j ~ (1 - beta)/(1 - beta^n_j)`` with sum C. The head is linear. Its bias starts at ``-log(C - 1)``, so that the
    initial probability of every class is 1/C instead of 1/2, and has no weight decay, which would pull it back to 0.
    Cui's scripts have beta = 0.9999, gamma = 1 and a weight decay of 2e-4 for CIFAR; 0.999 and 0.5 for ImageNet and
    iNaturalist, here for all photographs.

    References
    ----------
    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples.
    """

    name: ClassVar[str] = "cb-focal"
    head: ClassVar[str | None] = "linear"
    beta: float = 0.9999
    gamma: float = 1.0
    photograph_beta: float = 0.999
    photograph_gamma: float = 0.5

    def recipe(self, preset: Preset) -> Recipe:
        return preset.recipe.with_weight_decay(2e-4) if preset.on_cifar else preset.recipe

    def network(self, setting: Setting) -> Network:
        network = super().network(setting)
        from torch import nn

        nn.init.constant_(network.head.bias, -math.log(setting.train.n_classes - 1))
        return network

    def parameters(self, network: Network) -> Iterable[Any]:
        bias = network.head.bias
        rest = [parameter for parameter in network.parameters() if parameter is not bias]
        return [{"params": rest}, {"params": [bias], "weight_decay": 0.0}]

    def loss(self, setting: Setting) -> Loss:
        from energyalign.experiments.losses.class_balanced import class_balanced_weights

        large = setting.has_photographs
        gamma = self.photograph_gamma if large else self.gamma
        weights = class_balanced_weights(setting.counts, self.photograph_beta if large else self.beta)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return sigmoid_focal_loss(model(batch.images), batch.labels, weights, gamma)

        return loss


def sigmoid_focal_loss(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return the batch mean of ``w_y * sum_j -(1 - p_j)^gamma log p_j``.

    p_j is ``sigmoid(z_j)`` for the true class and ``sigmoid(-z_j)`` for the others. As in Cui's code, the weight of the
    true class multiplies all terms of an image. Gradients pass through the modulator ``(1 - p_j)^gamma``.
    """
    import torch
    from torch.nn import functional as F

    signs = F.one_hot(labels, logits.shape[1]) * 2 - 1
    towards_truth = signs * logits
    # (1 - p)^gamma by its logarithm: where p rounds to 1, a power with gamma < 1 has an infinite slope.
    modulator = torch.exp(gamma * F.logsigmoid(-towards_truth))
    terms = -modulator * F.logsigmoid(towards_truth)
    return (weights[labels] * terms.sum(1)).mean()
