"""Ridge regression on random projections: by hand, by brute force, and equal in parts and at once."""

from __future__ import annotations

import numpy as np
import torch

from energyalign.experiments.nets.random_projection import RIDGES, RandomProjectionHead


def drawn(n: int, n_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, n)
    return torch.from_numpy((rng.normal(size=(n, 3)) + labels[:, None]).astype(np.float32)), torch.from_numpy(labels)


def test_by_hand() -> None:
    """With P the identity, features (1, -3) become (1, 0): five samples of each axis, so G = Q = diag(5, 5)."""
    head = RandomProjectionHead(2, 2, 2)
    head.projection = torch.eye(2)
    features = torch.tensor([[1.0, -3.0], [0.0, 1.0]]).repeat(5, 1)
    ridge = head.add(features, torch.tensor([0, 1]).repeat(5), seed=0)
    assert ridge == RIDGES[0]  # of what is fitted exactly the least
    np.testing.assert_array_equal(head.gram, np.diag([5.0, 5.0]))
    np.testing.assert_allclose(head.weight, np.eye(2) * 5 / (5 + 1e-8))
    np.testing.assert_allclose(head(torch.tensor([[2.0, -1.0]])), [[2.0, 0.0]], atol=1e-6)


def test_the_ridge_is_that_with_the_least_error_on_a_fifth() -> None:
    features, labels = drawn(60, 3)
    head = RandomProjectionHead(3, 3, 20)
    chosen = head.add(features, labels, seed=5)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(5)).numpy()
    projected = np.maximum(features.numpy() @ head.projection.numpy(), 0).astype(np.float64)
    one_hot = np.eye(3)[labels]
    fit, rest = order[:48], order[48:]

    def error(ridge: float) -> float:
        gram = projected[fit].T @ projected[fit] + ridge * np.eye(20)
        weight = np.linalg.solve(gram, projected[fit].T @ one_hot[fit])
        return float(np.square(projected[rest] @ weight - one_hot[rest]).sum())

    errors = [error(ridge) for ridge in RIDGES]
    assert chosen == RIDGES[int(np.argmin(errors))]
    assert RIDGES[0] < chosen < RIDGES[-1]
    weight = np.linalg.solve(projected.T @ projected + chosen * np.eye(20), projected.T @ one_hot)
    np.testing.assert_allclose(head.weight, weight.T, rtol=1e-4, atol=1e-7)


def test_classes_that_come_later_count_as_if_they_had_come_at_once() -> None:
    features, labels = drawn(60, 4)
    whole = RandomProjectionHead(3, 4, 10)
    whole.add(features, labels, seed=0)
    parts = RandomProjectionHead(3, 2, 10)
    parts.projection = whole.projection
    parts.add(features[labels < 2], labels[labels < 2], seed=0)
    parts = parts.with_classes(4)
    ridge = parts.add(features[labels >= 2], labels[labels >= 2], seed=0)
    for name in ("gram", "products"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-6)
    weight = np.linalg.solve(whole.gram.numpy() + ridge * np.eye(10), whole.products.numpy())
    np.testing.assert_allclose(parts.weight, weight.T, rtol=1e-5, atol=1e-8)
