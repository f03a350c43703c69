"""OLTR's memory: embeddings and the loss of the centroids, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from energyalign.experiments.nets.oltr import MetaEmbedding, centroid_loss


def test_a_feature_at_reach_keeps_its_length_and_a_nearer_one_grows() -> None:
    """With nothing recalled: at distances 10 and 2.5 of the nearest centroid."""
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
    """Squared distances: 1 and 4 to their own centroids; 9 and 9, 0 and 10, so 7 on average, to the others."""
    centroids = torch.tensor([[0.0, 0.0], [3.0, 1.0], [0.0, -2.0]])
    features = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    loss = centroid_loss(features, torch.tensor([0, 2]), centroids, margin=margin, repel=0.01)
    assert loss.item() == pytest.approx(1.25 + 0.01 * repelling)


def test_the_gradient_pulls_a_centroid_to_its_features() -> None:
    centroids = torch.tensor([[0.0, 0.0], [50.0, 0.0]], requires_grad=True)
    centroid_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), centroids, margin=10.0, repel=0.01).backward()
    np.testing.assert_allclose(centroids.grad, [[-1, -2], [0, 0]], atol=1e-6)
