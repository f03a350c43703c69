"""Cross-entropy on logits to which the log prior is added."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def log_prior(counts: torch.Tensor) -> torch.Tensor:
    """``log(n_j / N)`` of every class."""
    return torch.log(counts / counts.sum())


def logit_adjusted_loss(
    logits: torch.Tensor, labels: torch.Tensor, log_priors: torch.Tensor, tau: float
) -> torch.Tensor:
    """``CE(z + tau log pi)``: the imbalance is explained by the prior, so that z alone need not carry it.

    References
    ----------
    Menon et al. 2021, Long-Tail Learning via Logit Adjustment.
    """
    return F.cross_entropy(logits + tau * log_priors, labels)
