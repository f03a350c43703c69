"""Linear discriminant analysis as a head: by hand, and equal for samples one by one and all at once."""

from __future__ import annotations

import numpy as np
import torch

from energyalign.experiments.nets.lda import LdaHead

FEATURES = torch.tensor([[0.0, 0.0], [2.0, 0.0], [5.0, 1.0], [5.0, 3.0]])
LABELS = torch.tensor([0, 0, 1, 1])


def test_by_hand() -> None:
    """Means (1, 0), (5, 2); scatter diag(2, 2) of four samples; half of it plus half the identity: diag(3/4, 3/4)."""
    head = LdaHead(2, 2, shrinkage=0.5)
    head.add(FEATURES, LABELS)
    np.testing.assert_allclose(head.weight, [[4 / 3, 0.0], [20 / 3, 8 / 3]])
    np.testing.assert_allclose(head.bias, [-2 / 3, -58 / 3])
    np.testing.assert_allclose(head(torch.tensor([[1.0, 0.0], [5.0, 2.0]])).argmax(dim=1), [0, 1])


def test_samples_may_come_in_any_parts_and_classes_later() -> None:
    rng = np.random.default_rng(0)
    features = torch.from_numpy(rng.normal(size=(60, 5)).astype(np.float32))
    labels = torch.from_numpy(np.sort(rng.integers(0, 4, 60)))
    whole = LdaHead(5, 4, 1e-4)
    whole.add(features, labels)
    n_first = int((labels < 2).sum())
    parts = LdaHead(5, 2, 1e-4)
    parts.add(features[: n_first - 7], labels[: n_first - 7])
    parts.add(features[n_first - 7 : n_first], labels[n_first - 7 : n_first])
    parts = parts.with_classes(4)
    for row in range(n_first, 60):
        parts.add(features[row : row + 1], labels[row : row + 1])
    for name, value in whole.state_dict().items():
        np.testing.assert_allclose(parts.state_dict()[name], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_as_computed_at_once() -> None:
    """Covariance and means by NumPy; logits are compared as differences of Mahalanobis distances."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], [3, 40, 9])
    features = rng.normal(size=(52, 4)) + labels[:, None]
    head = LdaHead(4, 3, 0.01)
    head.add(torch.from_numpy(features), torch.from_numpy(labels))
    means = np.array([features[labels == k].mean(axis=0) for k in range(3)])
    inverse = np.linalg.inv(0.99 * np.cov((features - means[labels]).T, bias=True) + 0.01 * np.eye(4))
    apart = features[:, None] - means
    distances = np.einsum("nkd,de,nke->nk", apart, inverse, apart)
    logits = head(torch.from_numpy(features)).numpy()
    np.testing.assert_allclose(logits - logits[:, :1], (distances[:, :1] - distances) / 2, atol=1e-8)


def test_a_larger_one_leaves_the_smaller_alone() -> None:
    head = LdaHead(2, 2, 0.5)
    head.add(FEATURES, LABELS)
    larger = head.with_classes(3)
    assert (head.out_features, larger.out_features) == (2, 3)
    larger.add(FEATURES, LABELS + 1)
    assert head.counts.tolist() == [2, 2]
    assert larger.counts.tolist() == [2, 4, 2]
    assert not any(value.requires_grad for value in larger.parameters())
