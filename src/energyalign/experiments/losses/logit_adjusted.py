"""Cross-entropy with the log prior added to the logits."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def log_prior(counts: torch.Tensor) -> torch.Tensor:
    """Return ``log(n_j / N)`` of every class."""
    return torch.log(counts / counts.sum())


def logit_adjusted_loss(
    logits: torch.Tensor, labels: torch.Tensor, log_priors: torch.Tensor, tau: float
) -> torch.Tensor:
    """Return ``CE(z + tau log pi)``: the prior explains the imbalance, so the logits z need not.

    References
    ----------
    Menon et al. 2021, Long-Tail Learning via Logit Adjustment.
    """
    return F.cross_entropy(logits + tau * log_priors, labels)
