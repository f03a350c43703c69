"""PODNet's network: several proxies for each class, and access to the maps between stages."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.backbones import CifarResNet, SmallCnn
from energyalign.experiments.nets.heads import NormalisedHead, directions, fresh_rows
from energyalign.experiments.nets.network import Network


class ProxyHead(NormalisedHead):
    """Logits ``scale * sum_k softmax_k(c_k) c_k`` of the cosines ``c_k`` between features and the proxies of a class.

    A class has ten proxies, so that it can have several modes. They are concatenated in its row of the weight.

    References
    ----------
    Douillard et al. 2020, PODNet: Pooled Outputs Distillation for Small-Tasks Incremental Learning, section 3.2.
    """

    n_proxies: ClassVar[int] = 10

    def __init__(self, n_features: int, n_classes: int, scale: float = 1.0, learned_scale: bool = True) -> None:
        super().__init__(n_features, n_classes, scale, learned_scale)
        rows = [fresh_rows(n_classes, n_features) for _ in range(self.n_proxies)]
        self.weight = nn.Parameter(torch.cat(rows, dim=1))

    def proxies(self) -> torch.Tensor:
        """Return the proxies, of shape (n_classes, n_proxies, n_features)."""
        return self.weight.unflatten(1, (self.n_proxies, -1))

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        return directions(features)

    def compare(self, normalised: torch.Tensor) -> torch.Tensor:
        proxies = directions(self.proxies()).flatten(0, 1)
        cosines = F.linear(normalised, proxies).unflatten(1, (-1, self.n_proxies))
        logits = self.scale * (cosines.softmax(dim=2) * cosines).sum(dim=2)
        return logits if self.bias is None else logits + self.bias


class PodNetwork(Network):
    """A network that can also return the maps between its stages."""

    def forward(
        self, images: torch.Tensor, *, with_maps: bool = False
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """Return logits, or logits, features and maps."""
        if not with_maps:
            return super().forward(images)
        features, maps = features_and_maps(self.backbone, images)
        return self.head(features), features, maps


def features_and_maps(backbone: nn.Module, images: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the features of a backbone, and the maps of each stage, of shape (n, channels, height, width)."""
    maps: list[torch.Tensor] = []
    hooks = [stage.register_forward_hook(lambda _stage, _in, out: maps.append(out)) for stage in stages_of(backbone)]
    try:
        return backbone(images), maps
    finally:
        for hook in hooks:
            hook.remove()


def stages_of(backbone: nn.Module) -> list[nn.Module]:
    """Return the stages of a backbone whose maps are compared."""
    if isinstance(backbone, CifarResNet):
        return [backbone.trunk.stage1, backbone.trunk.stage2, backbone.trunk.stage3]
    if isinstance(backbone, SmallCnn):
        return [layer for layer in backbone.layers if isinstance(layer, nn.ReLU)]
    if hasattr(backbone, "layer4"):  # torchvision's ResNets
        return [backbone.layer1, backbone.layer2, backbone.layer3, backbone.layer4]
    raise EnergyAlignError(
        f"PODNet compares maps between the stages of a ResNet, and {type(backbone).__name__} has none: choose a "
        "backbone such as resnet32 or small-cnn, or another method."
    )
