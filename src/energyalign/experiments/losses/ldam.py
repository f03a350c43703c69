"""Label-distribution-aware margins."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from energyalign.experiments.losses.weight_share import weight_share


def ldam_margins(counts: torch.Tensor, largest: float) -> torch.Tensor:
    """Margins proportional to ``n^(-1/4)``, that of the rarest class being `largest`.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """
    shape = counts**-0.25
    return largest * shape / shape.max()


def with_margins(logits: torch.Tensor, labels: torch.Tensor, margins: torch.Tensor) -> torch.Tensor:
    """The logits with the margin of the true class taken off that class's logit."""
    return logits - F.one_hot(labels, logits.shape[1]) * margins


def ldam_loss(
    logits: torch.Tensor, labels: torch.Tensor, margins: torch.Tensor, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Cross-entropy in which the true class must win by its margin.

    The logits are ``scale * cos``, the margins in their units: ``scale * ldam_margins(...)``. With weights of the
    classes the mean over the batch is the weighted mean.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """
    loss = F.cross_entropy(with_margins(logits, labels, margins), labels, weight=weights)
    return loss if weights is None else loss * weight_share(weights[labels])
