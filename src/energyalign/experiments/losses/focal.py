"""The focal loss on softmax probabilities."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def focal_loss(logits: torch.Tensor, labels: torch.Tensor, gamma: float) -> torch.Tensor:
    """Cross-entropy that counts less the surer the network is already: the mean of ``-(1 - p_y)^gamma log p_y``.

    The modulator ``(1 - p_y)^gamma`` takes part in the gradient. It is computed as ``exp(gamma log(1 - p_y))`` with
    ``log(1 - p_y)`` from the logits of the other classes: where p_y rounds to 1, a power of 1 - p_y below the first
    would have an infinite slope.

    References
    ----------
    Lin et al. 2017, Focal Loss for Dense Object Detection.
    """
    others = logits.scatter(1, labels.unsqueeze(1), -torch.inf)
    log_doubt = others.logsumexp(1) - logits.logsumexp(1)
    return (torch.exp(gamma * log_doubt) * F.cross_entropy(logits, labels, reduction="none")).mean()
