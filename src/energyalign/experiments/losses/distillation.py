"""Knowledge distillation."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def distillation(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cross-entropy of softened softmax outputs: ``-sum_i q_i log p_i`` with q, p = softmax(logits / T) over classes.

    Of the given columns alone, averaged over the batch, and without the factor T^2 that some implementations add.

    References
    ----------
    Hinton et al. 2015, Distilling the Knowledge in a Neural Network.
    """
    return F.cross_entropy(student / temperature, (teacher / temperature).softmax(dim=1))
