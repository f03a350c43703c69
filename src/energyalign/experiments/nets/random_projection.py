"""Ridge regression on random ReLU features as a head."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import nn
from torch.nn import functional as F

_ROWS = 4096
RIDGES = tuple(10.0**power for power in range(-8, 9))
_PART_TO_FIT = 0.8


class RandomProjectionHead(nn.Linear):  # type: ignore[misc]
    """Logits ``W h`` of ``h = relu(P x)``, P random and fixed, with ``W^T = (G + ridge I)^-1 Q``.

    G is the sum of ``h h^T`` over all samples and Q the sum of ``h y^T`` with one-hot labels y. Both are buffers, so
    samples can be added later without the earlier ones.

    References
    ----------
    McDonnell et al. 2023, RanPAC: Random Projections and Pre-trained Models for Continual Learning.
    """

    projection: torch.Tensor
    gram: torch.Tensor
    products: torch.Tensor

    def __init__(self, n_features: int, n_classes: int, n_projected: int) -> None:
        super().__init__(n_projected, n_classes, bias=False, dtype=torch.float64)
        self.requires_grad_(False)
        self.register_buffer("projection", torch.randn(n_features, n_projected))
        self.register_buffer("gram", self.weight.new_zeros(n_projected, n_projected))
        self.register_buffer("products", torch.zeros_like(self.weight.T))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(self._project(features))

    def with_classes(self, n_classes: int) -> Self:
        """Return a copy with more classes, which have no samples yet."""
        larger, n_new = copy.deepcopy(self), n_classes - self.out_features
        larger.out_features = n_classes
        larger.weight = nn.Parameter(F.pad(self.weight.detach(), (0, 0, 0, n_new)), requires_grad=False)
        larger.products = F.pad(self.products, (0, n_new))
        return larger

    def add(self, features: torch.Tensor, labels: torch.Tensor, seed: int) -> float:
        """Add samples to the sums, recompute the weights and return the ridge.

        The ridge is chosen from `RIDGES`: weights fitted to four fifths of these samples have the smallest squared
        error on the last fifth. The split is drawn by `seed`.
        """
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        n_fit = int(_PART_TO_FIT * len(labels))
        fit, rest = (self._sums(features[part], labels[part]) for part in (order[:n_fit], order[n_fit:]))
        ridge = _choose_ridge(*fit, *rest)
        self.gram += fit[0] + rest[0]
        self.products += fit[1] + rest[1]
        self.weight.copy_(_solve_ridge(self.gram, self.products, ridge).T)
        return ridge

    def _project(self, features: torch.Tensor) -> torch.Tensor:
        return F.relu(features.to(self.projection) @ self.projection).to(self.weight)

    def _sums(self, features: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute G and Q of some samples."""
        gram, products = torch.zeros_like(self.gram), torch.zeros_like(self.products)
        for some, of_class in zip(features.split(_ROWS), labels.split(_ROWS), strict=True):
            projected = self._project(some)
            gram += projected.T @ projected
            products += projected.T @ F.one_hot(of_class.to(self.weight.device), self.out_features).to(projected)
        return gram, products


def _solve_ridge(gram: torch.Tensor, products: torch.Tensor, ridge: float) -> torch.Tensor:
    return torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), products)


def _choose_ridge(
    gram: torch.Tensor, products: torch.Tensor, other_gram: torch.Tensor, other_products: torch.Tensor
) -> float:
    """Return the ridge whose weights, from the first two sums, have the smallest squared error on the other samples.

    The samples themselves are not needed: ``|H W - Y|^2 = tr(W^T G W) - 2 tr(W^T Q) + n``.
    """

    def error(ridge: float) -> float:
        weight = _solve_ridge(gram, products, ridge)
        return float((weight * (other_gram @ weight - 2.0 * other_products)).sum())

    return min(RIDGES, key=error)
