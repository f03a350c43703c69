"""Class-balanced weights of long-tailed CIFAR, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from energyalign.experiments.data.cut import profile_counts
from energyalign.experiments.losses.class_balanced import class_balanced_weights


def counts_of(n_max: int, n_classes: int) -> torch.Tensor:
    return torch.tensor(profile_counts("exponential", n_max, n_classes, 100), dtype=torch.float32)


@pytest.mark.parametrize(("n_max", "n_classes", "ratio"), [(5000, 10, 78.9), (500, 100, 97.6)])
def test_tail_over_head_at_imbalance_100(n_max: int, n_classes: int, ratio: float) -> None:
    weights = class_balanced_weights(counts_of(n_max, n_classes), 0.9999)
    assert float(weights[-1] / weights[0]) == pytest.approx(ratio, abs=0.05)
    assert float(weights.sum()) == pytest.approx(n_classes)


@pytest.mark.parametrize("beta", [0.9, 0.999, 0.9999, 0.999999])
def test_single_precision_is_enough(beta: float) -> None:
    counts = counts_of(500, 100)
    exact = (1 - beta) / (1 - np.float64(beta) ** counts.numpy().astype(np.float64))
    np.testing.assert_allclose(class_balanced_weights(counts, beta), exact * 100 / exact.sum(), rtol=2e-6)


def test_between_equal_weights_and_inverse_frequencies() -> None:
    counts = torch.tensor([100.0, 10.0, 1.0])
    torch.testing.assert_close(class_balanced_weights(counts, 1e-12), torch.ones(3))
    inverse = 1 / counts
    nearly = class_balanced_weights(counts, 1 - 1e-7)
    torch.testing.assert_close(nearly, 3 * inverse / inverse.sum(), rtol=1e-4, atol=0)
