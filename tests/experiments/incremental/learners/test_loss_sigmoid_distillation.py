"""Binary cross-entropy with labels for new classes and the teacher's sigmoids for old ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from energyalign.experiments.incremental.learners.icarl import sigmoid_distillation


def test_by_hand() -> None:
    """A new class 1, and an old class 0 with odds of 3 to 1 from the teacher and even odds from the student."""
    loss = sigmoid_distillation(
        torch.tensor([[0.0, math.log(4.0)]]), torch.tensor([1]), torch.tensor([[math.log(3.0)]])
    )
    assert float(loss) == pytest.approx(math.log(2.0) - math.log(4 / 5))


def test_against_numpy() -> None:
    rng = np.random.default_rng(0)
    logits, taught, labels = rng.normal(size=(6, 5)), rng.normal(size=(6, 3)), np.array([0, 4, 2, 3, 3, 1])
    p, targets = 1 / (1 + np.exp(-logits)), np.eye(5)[labels]
    targets[:, :3] = 1 / (1 + np.exp(-taught))
    terms = -targets * np.log(p) - (1 - targets) * np.log(1 - p)
    loss = sigmoid_distillation(torch.from_numpy(logits), torch.from_numpy(labels), torch.from_numpy(taught))
    assert float(loss) == pytest.approx(terms.sum(axis=1).mean())


def test_without_a_teacher_the_labels_answer_for_all_classes() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 3.0]])
    expected = (
        math.log1p(math.exp(-2)) + math.log1p(math.exp(-1)) + math.log1p(math.exp(0.5)) + math.log1p(math.exp(-3))
    )
    assert float(sigmoid_distillation(logits, torch.tensor([0, 1]), None)) == pytest.approx(expected / 2)


def test_of_old_classes_the_teacher_speaks_whatever_the_label() -> None:
    logits, taught = torch.randn(2, 4), torch.randn(2, 3)
    one, other = (sigmoid_distillation(logits, torch.tensor(labels), taught) for labels in ([0, 1], [2, 0]))
    assert float(one) == float(other)


def test_agreement_with_the_teacher_has_no_gradient_in_its_classes() -> None:
    logits = torch.tensor([[0.3, -1.2, 0.7]], requires_grad=True)
    sigmoid_distillation(logits, torch.tensor([2]), torch.tensor([[0.3, -1.2]])).backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.tensor([[0.0, 0.0, 1 / (1 + math.exp(-0.7)) - 1]]))
