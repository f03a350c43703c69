"""Mixtures of the samples of a batch with one another."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional as F


class Mixture(NamedTuple):
    """How a batch is mixed: each sample keeps `weight` and takes the rest from its partner."""

    weight: float
    partners: torch.Tensor
    """A permutation of the batch."""

    def mix(self, values: torch.Tensor) -> torch.Tensor:
        """``lam x + (1 - lam) x[partners]``."""
        return self.weight * values + (1.0 - self.weight) * values[self.partners]


def draw_mixture(n_samples: int, alpha: float, device: torch.device) -> Mixture:
    """One weight from Beta(alpha, alpha) for the whole batch, and a permutation; from torch's global generator.

    Both are drawn on the CPU, so that they are the same on every device.
    """
    weight = float(torch.distributions.Beta(alpha, alpha).sample())
    return Mixture(weight, torch.randperm(n_samples).to(device))


def mixed_cross_entropy(logits: torch.Tensor, labels: torch.Tensor, mixture: Mixture) -> torch.Tensor:
    """``lam CE(z, y) + (1 - lam) CE(z, y[partners])`` for the logits of mixed samples.

    References
    ----------
    Zhang et al. 2018, mixup: Beyond Empirical Risk Minimization.
    """
    own, other = F.cross_entropy(logits, labels), F.cross_entropy(logits, labels[mixture.partners])
    return mixture.weight * own + (1.0 - mixture.weight) * other
