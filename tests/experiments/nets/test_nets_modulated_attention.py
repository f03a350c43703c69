"""OLTR's attention: its formula, and its place in every backbone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from energyalign import EnergyAlignError
from energyalign.experiments.nets.network import make_network
from energyalign.experiments.nets.oltr import ModulatedAttention, add_modulated_attention


def softmax(values: np.ndarray) -> np.ndarray:
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_against_numpy() -> None:
    torch.manual_seed(0)
    layer = ModulatedAttention(4, 2, 3)
    nn.init.normal_(layer.back.weight)
    maps = torch.randn(1, 4, 2, 3)
    f = maps.numpy().reshape(4, 6)  # channels x pixels

    def convolved(part: nn.Conv2d) -> np.ndarray:
        return part.weight.detach().numpy()[:, :, 0, 0] @ f + part.bias.detach().numpy()[:, None]

    queries, keys, values = (convolved(part) for part in (layer.queries, layer.keys, layer.values))
    attended = np.stack([values @ softmax(queries[:, i] @ keys) for i in range(6)], axis=1)
    where = softmax(layer.where.weight.detach().numpy() @ f.reshape(-1) + layer.where.bias.detach().numpy())
    expected = f + where * (layer.back.weight.detach().numpy()[:, :, 0, 0] @ attended)
    np.testing.assert_allclose(layer(maps).detach().numpy().reshape(4, 6), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "size", "n_layers"),
    [
        ("small-cnn", 8, 1), ("resnet8", 16, 1), ("resnet18", 64, 1),
        ("small-cnn-bbn", 8, 2), ("resnet8-bbn", 16, 2), ("resnet18-bbn", 64, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_channels", [1, 3])
def test_a_new_layer_changes_nothing_and_learns(name: str, size: int, n_layers: int, in_channels: int) -> None:
    backbone = make_network(name, 2, in_channels=in_channels).backbone
    images = torch.randn(2, in_channels, size, size)
    before = backbone.eval()(images)
    add_modulated_attention(backbone.train(), images[:1])
    assert backbone.training
    layers = [part for part in backbone.modules() if isinstance(part, ModulatedAttention)]
    assert len(layers) == n_layers
    after = backbone.eval()(images)
    torch.testing.assert_close(after, before)
    (after * torch.randn_like(after)).sum().backward()
    assert all(float(layer.back.weight.grad.abs().sum()) > 0 for layer in layers)


def test_a_backbone_without_maps_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="has no maps that it averages"):
        add_modulated_attention(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), torch.zeros(1, 1, 2, 2))
