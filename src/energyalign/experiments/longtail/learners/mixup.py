"""Mixup and Manifold Mixup: training on mixtures of two images, or of their features."""

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
class Mixup(CrossEntropy):
    """``L = lam CE(f(x~), y) + (1 - lam) CE(f(x~), y[perm])`` on mixed images ``x~ = lam x + (1 - lam) x[perm]``.

    Every batch has one ``lam ~ Beta(alpha, alpha)`` and one permutation. alpha is 1 on CIFAR-LT (BagofTricks, MiSLAS)
    and 0.2 on photographs (MiSLAS on ImageNet-LT and iNaturalist).

    References
    ----------
    Zhang et al. 2018, mixup: Beyond Empirical Risk Minimization.
    Zhong et al. 2021, Improving Calibration for Long-Tailed Recognition (MiSLAS, for the values of alpha).
    """

    name: ClassVar[str] = "mixup"
    alpha: float = 1.0
    photograph_alpha: float = 0.2

    def loss(self, setting: Setting) -> Loss:
        from energyalign.experiments.losses.mixup import draw_mixture, mixed_cross_entropy

        alpha = self.photograph_alpha if setting.has_photographs else self.alpha

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            mixture = draw_mixture(len(batch.labels), alpha, batch.labels.device)
            return mixed_cross_entropy(model(mixture.mix(batch.images)), batch.labels, mixture)

        return loss


@dataclass(frozen=True)
class ManifoldMixup(CrossEntropy):
    """Mixup of the pooled features h(x) instead of the images: ``h~ = lam h(x) + (1 - lam) h(x[perm])``.

    This is BagofTricks's version for long tails: it always mixes the pooled features, with alpha = 1. The original
    mixes a layer drawn for every batch, with alpha = 2.

    References
    ----------
    Verma et al. 2019, Manifold Mixup: Better Representations by Interpolating Hidden States.
    Zhang et al. 2021, Bag of Tricks for Long-Tailed Visual Recognition with Deep Convolutional Neural Networks.
    """

    name: ClassVar[str] = "manifold-mixup"
    alpha: float = 1.0

    def network(self, setting: Setting) -> Network:
        from energyalign.experiments.nets.network import MixingNetwork

        plain = super().network(setting)
        return MixingNetwork(plain.backbone, plain.head)

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        from energyalign.experiments.losses.mixup import draw_mixture, mixed_cross_entropy

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            mixture = draw_mixture(len(batch.labels), self.alpha, batch.labels.device)
            return mixed_cross_entropy(model(batch.images, mixture), batch.labels, mixture)

        return loss
