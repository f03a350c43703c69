"""Cross-entropy, plain and with class weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F

from energyalign.pytorch.ranks import in_a_group


def cross_entropy(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
    """Return the mean cross-entropy of a batch, as a loss of the training loop."""
    return F.cross_entropy(model(batch.images), batch.labels)


def weighted_cross_entropy(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return ``sum_s w_(y_s) CE_s / sum_s w_(y_s)`` over a batch that several processes may share.

    The training loop counts all samples alike, whatever their rank. Multiplying by this rank's mean weight, divided by
    the mean weight of all ranks, makes each sample count as in the weighted mean over the whole batch.
    """
    loss = F.cross_entropy(logits, labels, weight=weights)
    if not in_a_group():
        return loss
    own = weights[labels]
    sums = torch.stack([own.sum(), own.new_tensor(len(own))])
    total = sums.clone()
    dist.all_reduce(total)
    return loss * ((sums[0] / sums[1]) / (total[0] / total[1]))
