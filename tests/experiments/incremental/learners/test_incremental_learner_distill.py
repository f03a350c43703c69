"""The training of the paper: its weight, its classes, its teacher."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from tiny_setting import says
from tiny_step import tiny_step

from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.learners.distill import Distill


class TinyBatch(NamedTuple):
    images: torch.Tensor
    labels: torch.Tensor


@pytest.mark.parametrize(
    ("sizes", "lambda_base", "expected"),
    [
        ((10, 10), 0.5, 0.25),
        ((10,) * 10, 0.5, 0.45),
        ((50, 50), 1.0, 0.5),
        ((20,) * 5, 0.75, 0.6),
        ((4, 3, 3), 1.0, 0.7),
    ],
)
def test_the_weight_is_the_share_of_old_classes(sizes: tuple[int, ...], lambda_base: float, expected: float) -> None:
    step = tiny_step(Distill(), (1,) * sum(sizes), sizes)
    step = replace(step, config=replace(step.config, lambda_base=lambda_base))
    assert Distill().weight(step) == pytest.approx(expected)


def test_by_hand_old_classes_alone_are_distilled() -> None:
    step = tiny_step(Distill(), (2, 2, 2), (2, 1), head="linear")  # lambda_base is 0.5: lambda = 1/3
    student = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    teacher = np.array([[3.0, 1.0], [-1.0, 1.0]])
    labels = np.array([2, 0])
    cross_entropy = -log_softmax(student, axis=1)[[0, 1], labels].mean()
    kept = -(softmax(teacher / 2, axis=1) * log_softmax(student[:, :2] / 2, axis=1)).sum(axis=1).mean()
    loss = Distill().loss(step, says(torch.from_numpy(teacher)))
    value = loss(says(torch.from_numpy(student)), TinyBatch(torch.zeros(2), torch.from_numpy(labels)), 1)
    assert float(value) == pytest.approx(2 / 3 * cross_entropy + 1 / 3 * kept)


def test_the_first_step_is_cross_entropy() -> None:
    step = tiny_step(Distill(), (2, 2), (2,))
    logits, labels = torch.tensor([[1.0, 2.0]]), torch.tensor([0])
    value = Distill().loss(step, None)(says(logits), TinyBatch(torch.zeros(1), labels), 1)
    assert float(value) == pytest.approx(np.log1p(np.e))


@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_a_step_goes_on_from_the_weights_of_the_one_before(head: str) -> None:
    first = tiny_step(Distill(), (2, 2), (2,), head=head)
    before = Distill().start(first, None)
    second = tiny_step(Distill(), (2, 2, 2), (2, 1), head=head)
    after = Distill().start(second, before)
    assert after.head.out_features == 3
    assert before.head.out_features == 2
    assert torch.equal(after.head.weight[:2], before.head.weight)
    for name, value in before.backbone.state_dict().items():
        assert torch.equal(value, after.backbone.state_dict()[name])
    again = Distill().start(second, before)
    assert torch.equal(again.head.weight, after.head.weight)


def test_joint_training_begins_anew() -> None:
    joint = find_learner("joint")
    before = joint.start(tiny_step(joint, (2, 2), (2,)), None)
    after = joint.start(tiny_step(joint, (2, 2, 2), (2, 1)), before)
    assert after.head.out_features == 3
    assert not torch.equal(after.head.weight[:2], before.head.weight)
