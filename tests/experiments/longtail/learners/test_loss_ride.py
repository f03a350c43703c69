"""RIDE's loss and temperatures by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from energyalign.experiments.longtail.learners.ride import class_temperatures, ride_loss
from energyalign.experiments.losses.ldam import ldam_loss


def test_rarer_classes_are_colder() -> None:
    """0.5 * 2 * 3/4 + 0.5 = 1.25 and 0.5 * 2 * 1/4 + 0.5 = 0.75."""
    assert class_temperatures(torch.tensor([3.0, 1.0]), 0.5).tolist() == pytest.approx([1.0, 0.6])
    assert class_temperatures(torch.tensor([3.0, 1.0]), 0.0).tolist() == [1.0, 1.0]


def test_two_experts_that_contradict_each_other() -> None:
    """Odds of 3 to 1 and 1 to 3 have an undecided mean: KL is log(1/2 / 3/4) / 2 + log(1/2 / 1/4) / 2 for both."""
    logits = torch.log(torch.tensor([[[3.0, 1.0], [1.0, 3.0]]]))
    loss = ride_loss(logits, torch.tensor([0]), torch.zeros(2), temperatures=torch.ones(2), diversity=0.45)
    apart = (log(2 / 3) + log(2)) / 2
    assert float(loss) == pytest.approx(log(4 / 3) + log(4) - 0.45 * 2 * apart)


def test_temperatures_divide_the_logits_of_their_class_and_their_mean_scales_the_reward() -> None:
    """Logits 0 and log 4 / 2 at temperatures 1 and 1/2 give odds of 1 to 4; the mean has odds of 1 to 2."""
    logits = torch.tensor([[[0.0, log(4) / 2], [0.0, 0.0]]])
    args = (torch.tensor([0]), torch.zeros(2))
    plain = ride_loss(logits, *args, temperatures=torch.ones(2), diversity=0.0)
    loss = ride_loss(logits, *args, temperatures=torch.tensor([1.0, 0.5]), diversity=1.0)
    of_all = (1 / 3, 2 / 3)
    first = of_all[0] * log(of_all[0] / 0.2) + of_all[1] * log(of_all[1] / 0.8)
    second = of_all[0] * log(of_all[0] / 0.5) + of_all[1] * log(of_all[1] / 0.5)
    assert float(plain - loss) == pytest.approx(0.75**2 * (first + second), rel=1e-5)


def test_experts_that_agree_have_ldams_loss_each() -> None:
    one = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    labels, margins, weights = torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0.1, 0.2, 0.5]), torch.tensor([0.5, 1, 1.5])
    loss = ride_loss(one[:, None].expand(5, 3, 3), labels, margins, weights, temperatures=torch.ones(3), diversity=0.45)
    torch.testing.assert_close(loss, 3 * ldam_loss(one, labels, margins, weights))
