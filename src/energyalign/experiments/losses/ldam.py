"""Label-distribution-aware margins.

References
----------
Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from energyalign.experiments.losses.cross_entropy import weighted_cross_entropy


def ldam_margins(counts: torch.Tensor, largest: float) -> torch.Tensor:
    """Return margins proportional to ``n^(-1/4)``; `largest` is the margin of the rarest class."""
    shape = counts**-0.25
    return largest * shape / shape.max()


def with_margins(logits: torch.Tensor, labels: torch.Tensor, margins: torch.Tensor) -> torch.Tensor:
    """Subtract the margin of the true class from its logit."""
    return logits - F.one_hot(labels, logits.shape[1]) * margins


def ldam_loss(
    logits: torch.Tensor, labels: torch.Tensor, margins: torch.Tensor, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the cross-entropy, weighted if there are class weights, in which the true class must win by its margin.

    Logits are ``scale * cos``, and margins are in the same units: ``scale * ldam_margins(...)``.
    """
    logits = with_margins(logits, labels, margins)
    return F.cross_entropy(logits, labels) if weights is None else weighted_cross_entropy(logits, labels, weights)
