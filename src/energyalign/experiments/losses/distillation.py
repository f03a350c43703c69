"""Knowledge distillation."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def distillation(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the batch mean of ``-sum_i q_i log p_i`` with q, p = softmax(logits / T) of teacher and student.

    The softmaxes are over the given columns. The factor T^2 of some implementations is left out.

    References
    ----------
    Hinton et al. 2015, Distilling the Knowledge in a Neural Network.
    """
    return F.cross_entropy(student / temperature, (teacher / temperature).softmax(dim=1))
