"""Weighted means over a batch that several processes share."""

from __future__ import annotations

import torch
import torch.distributed as dist

from energyalign.pytorch.ranks import in_a_group


def weight_share(weights: torch.Tensor) -> torch.Tensor | float:
    """The mean weight of these samples over that of all ranks' samples of the batch; 1 in a single process.

    The training loop counts every sample alike, whatever its rank. A weighted mean of the samples of one rank times
    this share makes each count as it does in the weighted mean over the whole batch.
    """
    if not in_a_group():
        return 1.0
    sums = torch.stack([weights.sum(), weights.new_tensor(len(weights))])
    total = sums.clone()
    dist.all_reduce(total)
    return (sums[0] / sums[1]) / (total[0] / total[1])
