"""Linear discriminant analysis as a head, from running statistics of the features."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import nn

_ROWS = 4096


class LdaHead(nn.Linear):  # type: ignore[misc]
    """Logits ``w_k . x - w_k . m_k / 2`` with ``w_k = ((1 - e) S + e I)^-1 m_k``.

    ``m_k`` is the mean feature of class k, S the shared covariance (the scatter of all samples around their class
    means, divided by the number of samples) and e the shrinkage. Means, counts and scatter are buffers, so samples can
    be added later without the earlier ones. Everything is in double precision, because the inverse of a shrunk
    covariance has entries of up to ``1 / e``.

    References
    ----------
    Hayes and Kanan 2020, Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis.
    """

    means: torch.Tensor
    counts: torch.Tensor
    scatter: torch.Tensor

    def __init__(self, n_features: int, n_classes: int, shrinkage: float) -> None:
        super().__init__(n_features, n_classes, dtype=torch.float64)
        self.requires_grad_(False)
        self.shrinkage = shrinkage
        self.register_buffer("means", torch.zeros_like(self.weight))
        self.register_buffer("counts", torch.zeros_like(self.bias))
        self.register_buffer("scatter", self.weight.new_zeros(n_features, n_features))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(features.to(self.weight))

    def with_classes(self, n_classes: int) -> Self:
        """Return a copy with more classes, which have no samples yet."""
        larger = copy.deepcopy(self)
        larger.out_features = n_classes
        for name in ("weight", "bias", "means", "counts"):
            old = getattr(self, name)
            values = torch.cat([old.detach(), old.new_zeros(n_classes - len(old), *old.shape[1:])])
            setattr(larger, name, nn.Parameter(values, False) if isinstance(old, nn.Parameter) else values)
        return larger

    def add(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Add samples to the statistics and recompute the weights."""
        for some, classes in zip(features.split(_ROWS), labels.split(_ROWS), strict=True):
            self._add(some.to(self.weight), classes.to(self.weight.device))
        identity = torch.eye(self.in_features).to(self.scatter)
        covariance = (1.0 - self.shrinkage) * self.scatter / self.counts.sum() + self.shrinkage * identity
        self.weight.copy_(torch.linalg.solve(covariance, self.means.T).T)
        self.bias.copy_(-0.5 * (self.weight * self.means).sum(dim=1))

    def _add(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        added = torch.bincount(labels, minlength=self.out_features).to(self.counts)
        means = torch.zeros_like(self.means).index_add_(0, labels, features) / added.clamp(min=1.0)[:, None]
        within = features - means[labels]
        apart = (means - self.means) * (added > 0)[:, None]
        total = (self.counts + added).clamp(min=1.0)
        self.scatter += within.T @ within + (apart * (self.counts * added / total)[:, None]).T @ apart
        self.means += apart * (added / total)[:, None]
        self.counts += added
