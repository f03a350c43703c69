"""RIDE's loss: every expert learns the labels with margins, and to differ from what all of them say."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from energyalign.experiments.losses.ldam import ldam_loss


def class_temperatures(counts: torch.Tensor, spread: float) -> torch.Tensor:
    """``t_j ~ spread C pi_j + 1 - spread``, that of the largest class being 1: rarer classes are colder.

    References
    ----------
    Wang et al. 2021, Long-Tailed Recognition by Routing Diverse Distribution-Aware Experts.
    """
    shape = spread * len(counts) * counts / counts.sum() + 1.0 - spread
    return shape / shape.max()


def ride_loss(
    logits: torch.Tensor, labels: torch.Tensor, margins: torch.Tensor, weights: torch.Tensor | None = None,
    *, temperatures: torch.Tensor, diversity: float,
) -> torch.Tensor:  # fmt: skip
    """``sum_e LDAM(z_e) - diversity mean(t)^2 KL(softmax(z/t) | softmax(z_e/t))``, z the mean of the experts' z_e.

    The logits have shape (n, n_experts, n_classes). No gradient goes through z.

    References
    ----------
    Wang et al. 2021, Long-Tailed Recognition by Routing Diverse Distribution-Aware Experts.
    """
    of_all = F.softmax(logits.mean(dim=1).detach() / temperatures, dim=1)
    total = logits.new_zeros((), dtype=torch.float32)
    for own in logits.unbind(dim=1):
        apart = F.kl_div(F.log_softmax(own / temperatures, dim=1), of_all, reduction="batchmean")
        total = total + ldam_loss(own, labels, margins, weights) - diversity * temperatures.mean() ** 2 * apart
    return total
