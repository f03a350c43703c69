"""What LADE adds to the logit-adjusted loss: each logit is drawn to the log ratio of two densities of images."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F


def lade_regulariser(logits: torch.Tensor, labels: torch.Tensor, prior: torch.Tensor, penalty: float) -> torch.Tensor:
    """``sum_j pi_j (r_j + penalty r_j^2 - m_j)`` of a batch of n images of C classes.

    ``m_j`` is the mean of ``z_j`` over the images of class j, 0 without one, and
    ``r_j = log(1/n sum_s e^(z_sj) / (C pi_j))`` over all images. ``m_j - r_j`` is Donsker and Varadhan's bound, largest
    where ``z_j`` is the log of the density of images of class j over that of balanced classes, up to a constant; the
    square fixes the constant.

    References
    ----------
    Hong et al. 2021, Disentangling Label Distribution for Long-Tailed Visual Recognition.
    """
    logits = logits.float()
    own = F.one_hot(labels, len(prior))
    means = (own * logits).sum(dim=0) / own.sum(dim=0).clamp_min(1)
    log_means = logits.logsumexp(dim=0) - math.log(len(logits)) - torch.log(len(prior) * prior)
    return (prior * (log_means + penalty * log_means.square() - means)).sum()
