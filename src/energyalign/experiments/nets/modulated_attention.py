"""Modulated attention: OLTR's layer between the maps of a backbone and their average."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError

_POOLING = (nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d)


class ModulatedAttention(nn.Module):  # type: ignore[misc]
    """Self-attention over the pixels of the maps, weighted pixel by pixel, and added to them.

    ``f + m(f) * W softmax(theta(f)^T phi(f)) g(f)`` with 1x1 convolutions theta, phi and g to half as many channels, W
    back to all of them, and m the softmax over pixels of a linear map of all of f. W is zero at first, so that a new
    layer changes nothing.

    Parameters
    ----------
    n_channels, height, width : int
        Of the maps; the linear map needs to know their size.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    """

    def __init__(self, n_channels: int, height: int, width: int) -> None:
        super().__init__()
        n_inner = max(1, n_channels // 2)
        self.queries, self.keys, self.values = (_convolution(n_channels, n_inner) for _ in range(3))
        self.back = nn.Conv2d(n_inner, n_channels, 1, bias=False)
        nn.init.zeros_(self.back.weight)
        self.where = nn.Linear(n_channels * height * width, height * width)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps of the same shape."""
        queries, keys, values = (part(maps).flatten(2) for part in (self.queries, self.keys, self.values))
        similarity = F.softmax(queries.transpose(1, 2) @ keys, dim=-1)
        attended = (similarity @ values.transpose(1, 2)).transpose(1, 2)
        here = F.softmax(self.where(maps.flatten(1)), dim=1)
        return maps + here.unflatten(1, (1, *maps.shape[2:])) * self.back(attended.unflatten(2, maps.shape[2:]))


def add_modulated_attention(backbone: nn.Module, image: torch.Tensor) -> None:
    """Put a layer behind each part of the backbone whose maps are averaged to features: two in a network of BBN.

    Parameters
    ----------
    backbone : torch.nn.Module
        Changed in place.
    image : tensor of shape (1, channels, height, width)
        Any image of the size that it will see, on its device.
    """
    for name, maps in _last_maps(backbone, image).items():
        layer = ModulatedAttention(*maps.shape[1:]).to(maps)
        setattr(backbone, name, nn.Sequential(getattr(backbone, name), layer))


def _last_maps(backbone: nn.Module, image: torch.Tensor) -> dict[str, torch.Tensor]:
    """By the name of the part that made them, the maps that no other part takes further, except for pooling."""
    loose: dict[str, torch.Tensor] = {}

    def followed(name: str, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        for before in [key for key, maps in loose.items() if any(maps is given for given in inputs)]:
            del loose[before]
        if output.ndim == 4:
            loose[name] = output

    hooks = [
        part.register_forward_hook(lambda _part, inputs, output, name=name: followed(name, inputs, output))
        for name, part in backbone.named_children()
        if not isinstance(part, _POOLING)
    ]
    training = backbone.training
    try:
        with torch.no_grad():
            backbone.eval()(image)
    finally:
        backbone.train(training)
        for hook in hooks:
            hook.remove()
    if not loose:
        raise EnergyAlignError(
            f"{type(backbone).__name__} has no maps that it averages to features, so modulated attention has no place "
            "in it: choose another backbone, or another method than OLTR."
        )
    return loose


def _convolution(n_channels_in: int, n_channels_out: int) -> nn.Conv2d:
    convolution = nn.Conv2d(n_channels_in, n_channels_out, 1)
    nn.init.kaiming_normal_(convolution.weight)
    nn.init.zeros_(convolution.bias)
    return convolution
