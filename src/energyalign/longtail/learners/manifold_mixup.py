"""Manifold Mixup: trains on mixtures of two features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from energyalign.longtail.learners.cross_entropy import CrossEntropy
from energyalign.losses.mixup import Mixture, draw_mixture, mixed, mixed_cross_entropy
from energyalign.nets.network import Network
from energyalign.train.loop import Loss

if TYPE_CHECKING:
    from energyalign.longtail.setting import Setting


class MixingNetwork(Network):
    """A network that can mix the features of a batch before the head sees them."""

    def forward(self, images: torch.Tensor, mixture: Mixture | None = None) -> torch.Tensor:
        """Logits; of mixed features if a mixture is given."""
        features = self.features(images)
        return self.head(features if mixture is None else mixed(features, mixture))


@dataclass(frozen=True)
class ManifoldMixup(CrossEntropy):
    """Mixup of the pooled features h(x) instead of the images: ``h~ = lam h(x) + (1 - lam) h(x[perm])``.

    The loss is that of `Mixup`, ``lam ~ Beta(alpha, alpha)``. The original mixes a layer drawn for every batch, with
    alpha = 2; this is BagofTricks's version for long tails, which always mixes the pooled features, with alpha = 1.

    References
    ----------
    Verma et al. 2019, Manifold Mixup: Better Representations by Interpolating Hidden States.
    Zhang et al. 2021, Bag of Tricks for Long-Tailed Visual Recognition with Deep Convolutional Neural Networks.
    """

    name: ClassVar[str] = "manifold-mixup"
    alpha: float = 1.0

    def network(self, setting: Setting) -> Network:
        """The usual one, able to mix."""
        plain = super().network(setting)
        return MixingNetwork(plain.backbone, plain.head)

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        """Cross-entropy on mixed features, with the labels of both."""

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            mixture = draw_mixture(len(batch.labels), self.alpha, batch.labels.device)
            return mixed_cross_entropy(model(batch.images, mixture), batch.labels, mixture)

        return loss
