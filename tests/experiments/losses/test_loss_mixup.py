"""Mixtures: how they are drawn, their values, and the loss on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from energyalign.experiments.losses.mixup import Mixture, draw_mixture, mixed_cross_entropy

torch.set_num_threads(1)
CPU = torch.device("cpu")


def test_mixing_three_values() -> None:
    mixture = Mixture(0.75, torch.tensor([2, 0, 1]))
    assert mixture.mix(torch.tensor([[0.0], [4.0], [8.0]])).tolist() == [[2.0], [3.0], [7.0]]


def test_loss_of_two_samples() -> None:
    """The two samples have class 0 with probability 3/4 and 3/5; the labels are 0 and 1, and they are partners."""
    logits = torch.tensor([[3.0, 1.0], [3.0, 2.0]]).log()
    loss = mixed_cross_entropy(logits, torch.tensor([0, 1]), Mixture(0.9, torch.tensor([1, 0])))
    first = -0.9 * math.log(0.75) - 0.1 * math.log(0.25)
    second = -0.9 * math.log(0.4) - 0.1 * math.log(0.6)
    assert (first + second) / 2 == pytest.approx(0.636644, abs=1e-6)
    assert float(loss) == pytest.approx((first + second) / 2)


def test_loss_is_linear_in_soft_labels() -> None:
    rng = np.random.default_rng(0)
    logits, labels = torch.from_numpy(rng.normal(size=(6, 4))), torch.from_numpy(rng.integers(4, size=6))
    mixture = Mixture(0.3, torch.tensor([3, 1, 5, 0, 2, 4]))
    soft = 0.3 * np.eye(4)[labels] + 0.7 * np.eye(4)[labels[mixture.partners]]
    log_p = logits.numpy() - np.log(np.exp(logits.numpy()).sum(1, keepdims=True))
    assert float(mixed_cross_entropy(logits, labels, mixture)) == pytest.approx(-(soft * log_p).sum(1).mean())


def test_weight_one_is_cross_entropy() -> None:
    logits, labels, values = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2]), torch.randn(6, 2, 4)
    mixture = Mixture(1.0, torch.randperm(6))
    assert torch.equal(mixed_cross_entropy(logits, labels, mixture), F.cross_entropy(logits, labels))
    assert torch.equal(mixture.mix(values), values)


@pytest.mark.parametrize(("alpha", "variance"), [(1.0, 1 / 12), (0.2, 1 / 5.6), (2.0, 1 / 20)])
def test_weights_have_the_moments_of_the_beta_distribution(alpha: float, variance: float) -> None:
    """Mean 1/2, variance 1 / (4 (2 alpha + 1))."""
    assert 1 / (4 * (2 * alpha + 1)) == pytest.approx(variance)
    torch.manual_seed(0)
    weights = np.array([draw_mixture(1, alpha, CPU).weight for _ in range(1500)])
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert weights.mean() == pytest.approx(0.5, abs=0.05)
    assert weights.var() == pytest.approx(variance, rel=0.1)


def test_all_comes_from_the_global_generator() -> None:
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(draw_mixture(20, 1.0, CPU))
    assert drawn[0].weight == drawn[1].weight != drawn[2].weight
    assert torch.equal(drawn[0].partners, drawn[1].partners)
    assert sorted(drawn[0].partners.tolist()) == list(range(20))
