"""Mixup: trains on mixtures of two images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Mixup(CrossEntropy):
    """Each image of a batch is mixed with another one, and should be said to be both in the same proportion.

    ``x~ = lam x + (1 - lam) x[perm]`` and ``L = lam CE(f(x~), y) + (1 - lam) CE(f(x~), y[perm])``, with one
    ``lam ~ Beta(alpha, alpha)`` and one permutation for a batch. alpha is 1 on CIFAR-LT (BagofTricks, MiSLAS) and 0.2
    on ImageNet-LT and iNaturalist (MiSLAS), that is, on photographs.

    References
    ----------
    Zhang et al. 2018, mixup: Beyond Empirical Risk Minimization.
    Zhong et al. 2021, Improving Calibration for Long-Tailed Recognition (MiSLAS, for the values of alpha).
    """

    name: ClassVar[str] = "mixup"
    alpha: float = 1.0
    photograph_alpha: float = 0.2

    def loss(self, setting: Setting) -> Loss:
        """Cross-entropy on mixed images, with the labels of both."""
        from energyalign.experiments.losses.mixup import draw_mixture, mixed_cross_entropy

        alpha = self.photograph_alpha if setting.has_photographs else self.alpha

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            mixture = draw_mixture(len(batch.labels), alpha, batch.labels.device)
            return mixed_cross_entropy(model(mixture.mix(batch.images)), batch.labels, mixture)

        return loss
