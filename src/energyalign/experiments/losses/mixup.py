"""Mixtures of the samples of a batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional as F


class Mixture(NamedTuple):
    """How to mix a batch: each sample keeps `weight` and takes the rest from its partner.

    `partners` is a permutation of the batch.
    """

    weight: float
    partners: torch.Tensor

    def mix(self, values: torch.Tensor) -> torch.Tensor:
        """Return ``lam x + (1 - lam) x[partners]``."""
        return self.weight * values + (1.0 - self.weight) * values[self.partners]


def draw_mixture(n_samples: int, alpha: float, device: torch.device) -> Mixture:
    """Draw one weight from Beta(alpha, alpha) and a permutation of the batch.

    Both come from torch's global generator on the CPU, so that they are the same on every device.
    """
    weight = float(torch.distributions.Beta(alpha, alpha).sample())
    return Mixture(weight, torch.randperm(n_samples).to(device))


def mixed_cross_entropy(logits: torch.Tensor, labels: torch.Tensor, mixture: Mixture) -> torch.Tensor:
    """Return ``lam CE(z, y) + (1 - lam) CE(z, y[partners])`` for the logits z of mixed samples.

    References
    ----------
    Zhang et al. 2018, mixup: Beyond Empirical Risk Minimization.
    """
    own, other = F.cross_entropy(logits, labels), F.cross_entropy(logits, labels[mixture.partners])
    return mixture.weight * own + (1.0 - mixture.weight) * other
