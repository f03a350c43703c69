"""Label-aware smoothing: the more images a class has, the less certain of it the network shall be."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F


def label_aware_amounts(counts: torch.Tensor, most_common: float, rarest: float) -> torch.Tensor:
    """``e_K + (e_1 - e_K) sin(pi/2 (n_j - n_K) / (n_1 - n_K))``: concave in n, e_1 for the largest class.

    Classes that all have the same number of images all have the amount e_K of the `rarest`.

    References
    ----------
    Zhong et al. 2021, Improving Calibration for Long-Tailed Recognition.
    """
    fewest = counts.min()
    place = (counts - fewest) / (counts.max() - fewest).clamp_min(1.0)
    return rarest + (most_common - rarest) * torch.sin(math.pi / 2 * place)


def label_aware_loss(logits: torch.Tensor, labels: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
    """``(1 - e_y) (-log p_y) + e_y mean_j (-log p_j)``, the mean over the batch.

    References
    ----------
    Zhong et al. 2021, Improving Calibration for Long-Tailed Recognition.
    """
    minus_log = -F.log_softmax(logits, dim=1)
    own, amount = minus_log.gather(1, labels[:, None])[:, 0], amounts[labels]
    return ((1.0 - amount) * own + amount * minus_log.mean(dim=1)).mean()
