"""LADE: the logit-adjusted loss, and a regulariser that makes logits log ratios of densities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Lade(CrossEntropy):
    """``L = CE(z + log pi) + weight * R`` with R of `lade_regulariser`; plain z at test time, for balanced classes.

    Weight and penalty are the released ones: 0.1 and 0.1, on iNaturalist 0.05 and 0.5. R follows the released code too:
    the ratio of balanced to training frequency is taken for the logit's class. The row has a linear head, like the
    original. Batch size, learning rate and network come from the cell; on CIFAR the original has batches of 256, a
    rate of 0.2 and BBN's network with 128 features. Each process computes R over its own part of a batch.

    Attributes
    ----------
    weight, penalty : float, default 0.1
        Weights of R, and of the square in it.
    inaturalist_weight, inaturalist_penalty : float, default 0.05 and 0.5
        The same on iNaturalist.

    References
    ----------
    Hong et al. 2021, Disentangling Label Distribution for Long-Tailed Visual Recognition.
    """

    name: ClassVar[str] = "lade"
    weight: float = 0.1
    penalty: float = 0.1
    inaturalist_weight: float = 0.05
    inaturalist_penalty: float = 0.5

    def loss(self, setting: Setting) -> Loss:
        from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

        log_priors = log_prior(setting.counts)
        prior = log_priors.exp()
        weight, penalty = self.weight, self.penalty
        if setting.config.dataset == "inaturalist18":
            weight, penalty = self.inaturalist_weight, self.inaturalist_penalty

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits = model(batch.images)
            adjusted = logit_adjusted_loss(logits, batch.labels, log_priors, tau=1.0)
            return adjusted + weight * lade_regulariser(logits, batch.labels, prior, penalty)

        return loss


def lade_regulariser(logits: torch.Tensor, labels: torch.Tensor, prior: torch.Tensor, penalty: float) -> torch.Tensor:
    """Return ``sum_j pi_j (r_j + penalty r_j^2 - m_j)`` of a batch of n images of C classes.

    ``m_j`` is the mean of ``z_j`` over the images of class j, 0 if there are none, and
    ``r_j = log(1/n sum_s e^(z_sj) / (C pi_j))`` over all images. ``m_j - r_j`` is the Donsker-Varadhan bound. Up to a
    constant, which the square fixes, it is largest where ``z_j`` is the log ratio of the density of class j to the
    density of balanced classes.
    """
    import torch
    from torch.nn import functional as F

    logits = logits.float()
    own = F.one_hot(labels, len(prior))
    means = (own * logits).sum(dim=0) / own.sum(dim=0).clamp_min(1)
    log_means = logits.logsumexp(dim=0) - math.log(len(logits)) - torch.log(len(prior) * prior)
    return (prior * (log_means + penalty * log_means.square() - means)).sum()
