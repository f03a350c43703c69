"""Class weights from the effective number of samples."""

from __future__ import annotations

import math

import torch


def class_balanced_weights(counts: torch.Tensor, beta: float) -> torch.Tensor:
    """Return ``(1 - beta) / (1 - beta^n)`` for classes of n >= 1 images, rescaled to sum to the number of classes.

    The effective number ``(1 - beta^n) / (1 - beta)`` is about n for small n and at most ``1 / (1 - beta)``. So weights
    are inverse frequencies for beta near 1 and equal for beta near 0. Usual values are 0.9999 on CIFAR and 0.999 on
    ImageNet and iNaturalist.

    References
    ----------
    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples.
    """
    # expm1, because 1 - beta^n would lose four of the seven digits of single precision.
    weights = 1.0 / -torch.expm1(counts * math.log(beta))
    return weights * (len(weights) / weights.sum())
