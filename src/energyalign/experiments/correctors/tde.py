"""TDE: the component along the mean feature is removed before the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting
from energyalign.experiments.nets.registry import HEADS

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained

PUBLISHED_ALPHAS = {
    ("cifar10", "resnet32-bbn"): 1.0,
    ("cifar100", "resnet32-bbn"): 1.5,
    ("imagenet-lt", "resnet50"): 3.0,
    ("imagenet-lt", "resnext50"): 3.0,
}
"""Alpha by data set and backbone."""


@dataclass(frozen=True)
class Tde(Corrector):
    """Total direct effect: `alpha` times the component of the features along their mean is removed before the head.

    For a head that compares normalised features x_k with normalised weights w_k, k = 1..K, and d the mean feature::

        z = scale / K * sum_k (x_k - alpha (x_k . d^_k) d^_k) . w_k,      d^_k = d_k / |d_k|

    For heads whose x_k have length one, cosine and causal-norm, ``x_k . d^_k`` is ``cos(x_k, d_k)``, as published. The
    capsule head shortens x; there the same share of the shortened x is removed, so that alpha = 1 leaves nothing along
    d under any head. (The published formula does not specify that case.)

    The original's d is a running mean over augmented batches with factor 0.9, under weights that still change. Here d
    is the mean that this approximates: over all training images, under the trained weights.

    `alpha` is the published value for data set and backbone: 1 on CIFAR-10 and 1.5 on CIFAR-100, both with BBN's
    network, and 3 on ImageNet-LT. For all others it follows the original's rule of thumb on the training images: the
    mean of alpha * cos(x_k, d_k) is 1.

    References
    ----------
    Tang, Huang and Zhang 2020, Long-Tailed Classification by Keeping the Good and Removing the Bad Momentum Causal
    Effect.
    """

    first_step: ClassVar[int] = 1

    def check(self, setting: RunSetting) -> None:
        head = setting.config.head
        if not HEADS[head].is_normalised:
            able = ", ".join(name for name, entry in HEADS.items() if entry.is_normalised)
            raise EnergyAlignError(
                f"TDE removes a direction from normalised features, and a {head} head does not normalise: train with "
                f"one of the heads {able}."
            )

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.corrected_heads import WithoutDirection

        head, config = trained.copied_head(), trained.config
        features = torch.from_numpy(trained.train_features)
        mean = torch.from_numpy(trained.train_features.mean(axis=0, dtype=np.float64)).to(features.dtype)
        alpha = PUBLISHED_ALPHAS.get((config.dataset, config.backbone))
        if alpha is None:
            alpha = rule_of_thumb(features, mean, head.n_parts)
        return Corrected(trained.with_head(WithoutDirection(head, mean, alpha)), details={"alpha": alpha})


def rule_of_thumb(features: torch.Tensor, mean: torch.Tensor, n_parts: int) -> float:
    """Return the alpha for which the mean of ``alpha * cos(feature, mean)`` over images and parts is 1."""
    import torch

    from energyalign.experiments.nets.heads import directions

    parts, ahead = features.unflatten(-1, (n_parts, -1)), directions(mean.unflatten(-1, (n_parts, -1)))
    # Do not normalise a copy of the features, which may fill the memory.
    lengths = torch.linalg.vector_norm(parts, dim=-1)
    cosines = torch.einsum("nkd,kd->nk", parts, ahead) / lengths.masked_fill(lengths == 0, 1.0)
    mean_cosine = float(cosines.double().mean())
    return 1.0 / mean_cosine if mean_cosine > 0 else 0.0  # 0 for a network whose features are all zero
