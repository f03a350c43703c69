"""OLTR's memory and attention, compared with their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from energyalign import EnergyAlignError
from energyalign.experiments.nets.network import make_network
from energyalign.experiments.nets.oltr import MetaEmbedding, ModulatedAttention, add_modulated_attention, centroid_loss


def test_a_feature_at_reach_keeps_its_length_and_a_nearer_one_grows() -> None:
    """Without recalled features, at distances of 10 and 2.5 from the nearest centroid."""
    memory = MetaEmbedding(torch.tensor([[0.0, 0.0], [100.0, 0.0]]))
    for parameter in memory.select.parameters():
        torch.nn.init.zeros_(parameter)
    features = torch.tensor([[6.0, 8.0], [100.0, 2.5]])
    np.testing.assert_allclose(memory(features).detach(), [[6, 8], [400, 10]], rtol=1e-6)


def test_a_feature_that_is_a_centroid_gives_finite_numbers_and_gradients() -> None:
    centroids = torch.randn(3, 4)
    memory = MetaEmbedding(centroids)
    features = centroids.clone().requires_grad_()
    embedded = memory(features)
    loss = (embedded / (1 + torch.linalg.vector_norm(embedded, dim=1, keepdim=True))).sum()
    loss = loss + centroid_loss(features, torch.arange(3), memory.centroids, margin=10.0, repel=0.01)
    loss.backward()
    assert torch.isfinite(loss)
    for value in (features, *memory.parameters()):
        assert torch.isfinite(value.grad).all()


@pytest.mark.parametrize(("margin", "repelling"), [(10.0, 3.0), (5.0, 0.0)])
def test_the_loss_by_hand(margin: float, repelling: float) -> None:
    """Squared distances to their own centroids are 1 and 4; to the others 9 and 9, 0 and 10, with mean 7."""
    centroids = torch.tensor([[0.0, 0.0], [3.0, 1.0], [0.0, -2.0]])
    features = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    loss = centroid_loss(features, torch.tensor([0, 2]), centroids, margin=margin, repel=0.01)
    assert loss.item() == pytest.approx(1.25 + 0.01 * repelling)


def test_the_gradient_pulls_a_centroid_to_its_features() -> None:
    centroids = torch.tensor([[0.0, 0.0], [50.0, 0.0]], requires_grad=True)
    centroid_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), centroids, margin=10.0, repel=0.01).backward()
    np.testing.assert_allclose(centroids.grad, [[-1, -2], [0, 0]], atol=1e-6)


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
