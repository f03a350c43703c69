"""Distillation, compared with numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import log_softmax, softmax

from energyalign.experiments.losses.distillation import distillation


def test_by_hand_two_classes_at_temperature_two() -> None:
    """Logits (2 log 3, 0) at T = 2 are probabilities (3/4, 1/4); an undecided student has loss log 2 for any q."""
    teacher = torch.tensor([[2 * math.log(3.0), 0.0]])
    assert math.isclose(float(distillation(torch.zeros(1, 2), teacher, 2.0)), math.log(2.0), rel_tol=1e-6)
    student = torch.tensor([[0.0, 2 * math.log(3.0)]])
    by_hand = -(0.75 * math.log(0.25) + 0.25 * math.log(0.75))
    assert math.isclose(float(distillation(student, teacher, 2.0)), by_hand, rel_tol=1e-6)


def test_the_softmax_is_over_classes_and_the_mean_over_the_batch() -> None:
    """Not over the batch, as in a public implementation, and without the factor T squared."""
    rng = np.random.default_rng(0)
    student, teacher = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    expected = -(softmax(teacher / 2, axis=1) * log_softmax(student / 2, axis=1)).sum(axis=1).mean()
    assert math.isclose(
        float(distillation(torch.from_numpy(student), torch.from_numpy(teacher), 2.0)), expected, rel_tol=1e-12
    )
    alone = [
        float(distillation(torch.from_numpy(student[i : i + 1]), torch.from_numpy(teacher[i : i + 1]), 2.0))
        for i in range(6)
    ]
    assert math.isclose(np.mean(alone), expected, rel_tol=1e-12)


def test_it_is_least_where_the_student_agrees_and_a_constant_changes_nothing() -> None:
    teacher = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    student = teacher.clone().requires_grad_()
    distillation(student, teacher + 7.0, 2.0).backward()
    assert student.grad is not None
    assert float(student.grad.abs().max()) < 1e-12
