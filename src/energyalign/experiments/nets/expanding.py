"""Networks that get a backbone more when classes come: DER, and the boosting of FOSTER."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch
from torch import nn

from energyalign.experiments.nets.network import Network


class ExpandingBackbone(nn.Module):  # type: ignore[misc]
    """Backbones side by side: their features one after another. All but the last are frozen, statistics too."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.n_features = sum(part.n_features for part in self.parts)
        self.parts[:-1].requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Training mode for the last part alone."""
        super().train(mode)
        self.parts[:-1].eval()
        return self

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of shape (n, n_features), those of the newest part last."""
        return torch.cat([part(images) for part in self.parts], dim=1)


class ExpandingNetwork(Network):
    """A head on all features, and an auxiliary one on those of the newest backbone, which only training sees."""

    def __init__(self, backbone: ExpandingBackbone, head: nn.Module, auxiliary: nn.Module | None = None) -> None:
        super().__init__(backbone, head)
        self.auxiliary = auxiliary

    def forward(
        self, images: torch.Tensor, *, with_auxiliary: bool = False
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Logits, of both heads if asked for."""
        features = self.features(images)
        if not with_auxiliary or self.auxiliary is None:
            return self.head(features)
        return self.head(features), self.auxiliary(features[:, -self.auxiliary.in_features :])


def widened(head: nn.Linear, n_features: int, n_classes: int) -> nn.Linear:
    """A linear head with more features, and maybe more classes; what it says of the old ones by old features stays.

    All other weights are drawn from torch's global generator, biases of new classes too.
    """
    n_old, n_before = head.weight.shape
    larger = nn.Linear(n_features, n_classes, bias=head.bias is not None).to(head.weight)
    with torch.no_grad():
        larger.weight[:n_old, :n_before] = head.weight
        if head.bias is not None:
            larger.bias[:n_old] = head.bias
    return larger
