"""Class weights from the effective number of images."""

from __future__ import annotations

import math

import torch


def class_balanced_weights(counts: torch.Tensor, beta: float) -> torch.Tensor:
    """``(1 - beta) / (1 - beta^n)`` for a class of n images, rescaled so that the weights sum to the number of classes.

    The effective number ``(1 - beta^n) / (1 - beta)`` is n for small n and never more than ``1 / (1 - beta)``: near
    beta = 1 the weights are inverse frequencies, at beta = 0 they would all be one.

    Beta is between 0 and 1: 0.9999 on CIFAR, 0.999 on ImageNet and iNaturalist. Every class needs an image.

    References
    ----------
    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples.
    """
    # 1 - beta^n by expm1: in single precision the difference itself would lose four of the seven digits.
    weights = 1.0 / -torch.expm1(counts * math.log(beta))
    return weights * (len(weights) / weights.sum())
