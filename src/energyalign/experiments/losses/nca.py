"""Neighbourhood components analysis with a margin, on similarities to classes."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def nca_loss(logits: torch.Tensor, labels: torch.Tensor, margin: torch.Tensor | float) -> torch.Tensor:
    """``max(0, -log(exp(z_y - margin) / sum over i != y of exp(z_i)))``, averaged over the batch.

    Unlike cross-entropy, it leaves the true class out of the sum, and ends at zero once that class is far enough ahead.
    The margin is in units of the logits.

    References
    ----------
    Goldberger et al. 2005, Neighbourhood Components Analysis; Douillard et al. 2020, PODNet, equation 8.
    """
    is_right = F.one_hot(labels, logits.shape[1]).bool()
    others = logits.masked_fill(is_right, -torch.inf).logsumexp(dim=1)
    return F.relu(others - (logits[is_right] - margin)).mean()
