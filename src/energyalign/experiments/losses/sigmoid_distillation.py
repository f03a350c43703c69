"""Yes-or-no questions, one per class: about new classes the label answers, about old ones the teacher."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def sigmoid_distillation(logits: torch.Tensor, labels: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    """``sum_k -t_k log p_k - (1 - t_k) log(1 - p_k)`` with ``p_k = sigmoid(z_k)``, averaged over the batch.

    The target ``t_k`` of a class that the teacher knows is the sigmoid of the teacher's logit, for exemplars of that
    class too, whose labels count for nothing. That of any other class is 1 for the label and 0 otherwise.

    `taught` are the teacher's logits of the first classes, (n, n_old); None if there is no teacher.

    References
    ----------
    Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation Learning.
    """
    targets = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
    if taught is not None:
        targets[:, : taught.shape[1]] = taught.sigmoid()
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(labels)
