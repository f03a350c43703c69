"""Label-aware smoothing by hand."""

from __future__ import annotations

from math import log, sqrt

import pytest
import torch

from energyalign.experiments.correctors.mislas import label_aware_amounts, label_aware_loss


def test_amounts_grow_with_the_images_and_are_concave() -> None:
    """Halfway from 10 to 110 images: the sine of 45 degrees."""
    amounts = label_aware_amounts(torch.tensor([110.0, 60.0, 10.0]), most_common=0.4, rarest=0.1)
    assert amounts.tolist() == pytest.approx([0.4, 0.1 + 0.3 * sqrt(0.5), 0.1])


def test_classes_of_one_size_have_the_amount_of_the_rarest() -> None:
    assert label_aware_amounts(torch.tensor([7.0, 7.0]), 0.4, 0.1).tolist() == pytest.approx([0.1, 0.1])


def test_the_loss_by_hand() -> None:
    """With probabilities 3/4 and 1/4; class 0 is smoothed by 0.4, class 1 not at all."""
    logits = torch.log(torch.tensor([[3.0, 1.0], [3.0, 1.0]]))
    loss = label_aware_loss(logits, torch.tensor([0, 1]), torch.tensor([0.4, 0.0]))
    first = 0.6 * log(4 / 3) + 0.4 * (log(4 / 3) + log(4)) / 2
    assert float(loss) == pytest.approx((first + log(4)) / 2)


def test_one_amount_for_all_is_torchs_label_smoothing() -> None:
    logits, labels = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2])
    expected = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.2)
    torch.testing.assert_close(label_aware_loss(logits, labels, torch.full((3,), 0.2)), expected)
