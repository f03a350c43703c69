"""LDAM's margins and their effect on the loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from energyalign.experiments.data.cut import profile_counts
from energyalign.experiments.losses.ldam import ldam_loss, ldam_margins, with_margins


@pytest.mark.parametrize(("n_max", "n_classes"), [(5000, 10), (500, 100)])
def test_margins_at_imbalance_100(n_max: int, n_classes: int) -> None:
    counts = torch.tensor(profile_counts("exponential", n_max, n_classes, 100), dtype=torch.float32)
    margins = ldam_margins(counts, 0.5)
    assert float(margins[0]) == pytest.approx(0.1581, abs=5e-5)
    assert float(margins[-1]) == pytest.approx(0.5)
    assert (margins.diff() >= 0).all()


def test_margin_of_sixteen_times_as_many_images_is_half() -> None:
    torch.testing.assert_close(ldam_margins(torch.tensor([160.0, 10.0]), 0.5), torch.tensor([0.25, 0.5]))


def test_only_the_true_class_pays() -> None:
    changed = with_margins(torch.zeros(2, 3), torch.tensor([2, 0]), torch.tensor([1.0, 2.0, 4.0]))
    assert changed.tolist() == [[0, 0, -4], [-1, 0, 0]]


def test_loss_of_three_classes() -> None:
    """Cosines 0.5, 0.4, -0.2; the second class is the true one, with margin 0.1: 30 (0.5, 0.3, -0.2)."""
    margins = 30 * torch.tensor([0.05, 0.1, 0.5])
    loss = ldam_loss(30 * torch.tensor([[0.5, 0.4, -0.2]]), torch.tensor([1]), margins)
    expected = math.log(math.exp(15) + math.exp(9) + math.exp(-6)) - 9
    assert expected == pytest.approx(6.002476, abs=1e-6)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_weighted_mean_divides_by_the_sum_of_the_weights() -> None:
    rng = np.random.default_rng(0)
    logits, labels = torch.from_numpy(rng.normal(size=(5, 3))), torch.tensor([0, 0, 1, 2, 0])
    weights, margins = torch.tensor([0.2, 0.8, 2.0]).double(), torch.tensor([0.1, 0.2, 0.3]).double()
    each = [float(ldam_loss(z[None], y[None], margins)) for z, y in zip(logits, labels, strict=True)]
    expected = np.average(each, weights=weights[labels].numpy())
    assert float(ldam_loss(logits, labels, margins, weights)) == pytest.approx(expected)


def test_without_margins_it_is_cross_entropy() -> None:
    logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    torch.testing.assert_close(ldam_loss(logits, labels, torch.zeros(3)), F.cross_entropy(logits, labels))
