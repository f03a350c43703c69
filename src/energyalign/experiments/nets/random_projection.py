"""Ridge regression on random non-linear features as a head: nothing is trained by gradients."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Self

import torch
from torch import nn
from torch.nn import functional as F

_ROWS = 4096
RIDGES = tuple(10.0**power for power in range(-8, 9))
_PART_TO_FIT = 0.8


class RandomProjectionHead(nn.Linear):  # type: ignore[misc]
    """Logits ``W h`` of ``h = relu(P x)``, P random and fixed, with ``W^T = (G + ridge I)^-1 Q``.

    G is the sum of ``h h^T`` over all samples and Q that of ``h y^T``, with y the label as a one and zeros. Both are
    buffers, so that samples can be added later and no earlier one is needed again.

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
        """Logits of shape (n, n_classes)."""
        return super().forward(self._projected(features))

    def with_classes(self, n_classes: int) -> Self:
        """A copy with more classes, of which there are no samples yet."""
        larger, n_new = copy.deepcopy(self), n_classes - self.out_features
        larger.out_features = n_classes
        larger.weight = nn.Parameter(F.pad(self.weight.detach(), (0, 0, 0, n_new)), requires_grad=False)
        larger.products = F.pad(self.products, (0, n_new))
        return larger

    def add(self, features: torch.Tensor, labels: torch.Tensor, seed: int) -> float:
        """Take these samples into the sums, and the weights from them; returns the ridge.

        It is that of `RIDGES` with the least squared error on a fifth of these samples, drawn by the seed, of the
        weights that the other four fifths alone give.
        """
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        n_fit = int(_PART_TO_FIT * len(labels))
        fit, rest = (self._sums(features[part], labels[part]) for part in (order[:n_fit], order[n_fit:]))
        ridge = _best_ridge(*fit, *rest)
        self.gram += fit[0] + rest[0]
        self.products += fit[1] + rest[1]
        self.weight.copy_(_ridge_solution(self.gram, self.products, ridge).T)
        return ridge

    def _projected(self, features: torch.Tensor) -> torch.Tensor:
        return F.relu(features.to(self.projection) @ self.projection).to(self.weight)

    def _sums(self, features: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """G and Q of some samples."""
        gram, products = torch.zeros_like(self.gram), torch.zeros_like(self.products)
        for projected, of_class in self._blocks(features, labels):
            gram += projected.T @ projected
            products += projected.T @ F.one_hot(of_class, self.out_features).to(projected)
        return gram, products

    def _blocks(self, features: torch.Tensor, labels: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for some, of_class in zip(features.split(_ROWS), labels.split(_ROWS), strict=True):
            yield self._projected(some), of_class.to(self.weight.device)


def _ridge_solution(gram: torch.Tensor, products: torch.Tensor, ridge: float) -> torch.Tensor:
    return torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), products)


def _best_ridge(
    gram: torch.Tensor, products: torch.Tensor, other_gram: torch.Tensor, other_products: torch.Tensor
) -> float:
    """The ridge whose weights, from the first two sums, have the least squared error on the samples of the others.

    ``|H W - Y|^2 = tr(W^T G W) - 2 tr(W^T Q) + n``: the samples themselves are not needed.
    """

    def error(ridge: float) -> float:
        weight = _ridge_solution(gram, products, ridge)
        return float((weight * (other_gram @ weight - 2.0 * other_products)).sum())

    return min(RIDGES, key=error)
