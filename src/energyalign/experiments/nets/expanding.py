"""Networks that get another backbone for new classes: DER, and the boosting of FOSTER."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Self

import torch
from torch import nn

from energyalign.experiments.nets.network import Network


class ExpandingBackbone(nn.Module):  # type: ignore[misc]
    """Backbones side by side, their features concatenated. All but the last are frozen, batch statistics included."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.n_features = sum(part.n_features for part in self.parts)
        self.parts[:-1].requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.parts[:-1].eval()
        return self

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([part(images) for part in self.parts], dim=1)


class ExpandingNetwork(Network):
    """A head on all features and, for training only, an auxiliary head on the features of the newest backbone."""

    def __init__(self, backbone: ExpandingBackbone, head: nn.Module, auxiliary: nn.Module | None = None) -> None:
        super().__init__(backbone, head)
        self.auxiliary = auxiliary

    def forward(
        self, images: torch.Tensor, *, with_auxiliary: bool = False
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        features = self.features(images)
        if not with_auxiliary or self.auxiliary is None:
            return self.head(features)
        return self.head(features), self.auxiliary(features[:, -self.auxiliary.in_features :])


def expand(
    parts: Iterable[nn.Module], head: nn.Linear, n_classes: int, *, n_auxiliary: int, bias: bool
) -> ExpandingNetwork:
    """Return a network of copies of these backbones, a trainable copy of the last, and two heads.

    The main head is widened. The auxiliary head has `n_auxiliary` outputs, and its weights are drawn from torch's
    global generator.
    """
    frozen = copy.deepcopy(list(parts))
    newest = copy.deepcopy(frozen[-1])
    backbone = ExpandingBackbone([*frozen, newest])
    larger = widen(head, backbone.n_features, n_classes)
    return ExpandingNetwork(backbone, larger, nn.Linear(newest.n_features, n_auxiliary, bias=bias).to(head.weight))


def widen(head: nn.Linear, n_features: int, n_classes: int) -> nn.Linear:
    """Return a linear head with more features and maybe more classes, which keeps the weights of `head`.

    All other weights and biases are drawn from torch's global generator.
    """
    n_old, n_before = head.weight.shape
    larger = nn.Linear(n_features, n_classes, bias=head.bias is not None).to(head.weight)
    with torch.no_grad():
        larger.weight[:n_old, :n_before] = head.weight
        if head.bias is not None:
            larger.bias[:n_old] = head.bias
    return larger
