"""Manifold Mixup: trains on mixtures of two features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss


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
        from energyalign.experiments.nets.network import MixingNetwork

        plain = super().network(setting)
        return MixingNetwork(plain.backbone, plain.head)

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        """Cross-entropy on mixed features, with the labels of both."""
        from energyalign.experiments.losses.mixup import draw_mixture, mixed_cross_entropy

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            mixture = draw_mixture(len(batch.labels), self.alpha, batch.labels.device)
            return mixed_cross_entropy(model(batch.images, mixture), batch.labels, mixture)

        return loss
