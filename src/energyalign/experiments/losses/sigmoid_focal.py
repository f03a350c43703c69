"""The focal loss of one yes-or-no question per class, weighted by the class of the image."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def sigmoid_focal_loss(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, gamma: float) -> torch.Tensor:
    """``w_y * sum_j -(1 - p_j)^gamma log p_j``, averaged over the images.

    p_j is the probability of the right answer to "is it class j?": ``sigmoid(z_j)`` for the true class,
    ``sigmoid(-z_j)`` for the others. The weight of the true class is on all of an image's terms, and the sum is over
    the images' number of positives, one each, as in Cui's code. The modulator takes part in the gradient.

    CB-Focal has the weights of `energyalign.experiments.losses.class_balanced.class_balanced_weights`.

    References
    ----------
    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples.
    """
    signs = F.one_hot(labels, logits.shape[1]) * 2 - 1
    towards_truth = signs * logits
    # (1 - p)^gamma through its logarithm: a power below the first has an infinite slope where p rounds to 1.
    modulator = torch.exp(gamma * F.logsigmoid(-towards_truth))
    terms = -modulator * F.logsigmoid(towards_truth)
    return (weights[labels] * terms.sum(1)).mean()
