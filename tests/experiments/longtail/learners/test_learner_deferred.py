"""Deferred methods: when they begin, LDAM's learning rates, and the images of late epochs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_setting import tiny_setting

from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.learners.deferred import Deferred
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.recipe import SGD

DEFERRED = ["ce-drw", "ce-drs", "ldam-drw"]


@pytest.mark.parametrize(("n_epochs", "first"), [(200, 161), (60, 49), (15, 13), (10, 9), (8, 7), (2, 2)])
def test_they_begin_after_four_fifths(n_epochs: int, first: int) -> None:
    late = [epoch for epoch in range(1, n_epochs + 1) if Deferred().is_late(epoch, n_epochs)]
    assert late == list(range(first, n_epochs + 1))


@pytest.mark.parametrize("name", DEFERRED)
@pytest.mark.parametrize(
    ("epoch", "lr"),
    [(1, 0.02), (2, 0.04), (4, 0.08), (5, 0.1), (120, 0.1), (160, 0.1), (161, 1e-3), (180, 1e-3), (181, 1e-5),
     (200, 1e-5)],
)  # fmt: skip
def test_steps_are_ldams(name: str, epoch: int, lr: float) -> None:
    assert find_learner(name).recipe(PRESETS["cifar100-lt-100"]).lr(epoch) == pytest.approx(lr)


@pytest.mark.parametrize("name", DEFERRED)
@pytest.mark.parametrize("n_epochs", [200, 60, 15, 10])
def test_the_first_step_and_the_change_come_together(name: str, n_epochs: int) -> None:
    learner = find_learner(name)
    cell = PRESETS["cifar10-lt-100"]
    recipe = learner.recipe(replace(cell, recipe=cell.recipe.lasting(n_epochs)))
    for epoch in range(1, n_epochs + 1):
        assert (recipe.lr(epoch) < 0.0015) == learner.is_late(epoch, n_epochs)


@pytest.mark.parametrize("name", DEFERRED)
@pytest.mark.parametrize("preset", ["imagenet-lt-resnet50", "inaturalist-90", "digits-lt-50"])
def test_a_cosine_stays_a_cosine(name: str, preset: str) -> None:
    assert find_learner(name).recipe(PRESETS[preset]) == PRESETS[preset].recipe


@pytest.mark.parametrize("name", [*DEFERRED, "cb-focal"])
@pytest.mark.parametrize("preset", ["cifar10-lt-100", "cifar100-lt-10"])
def test_the_weight_decay_on_cifar_is_the_originals(name: str, preset: str) -> None:
    """2e-4 in the code of LDAM and of Cui et al.; the paper's own rows have 5e-4."""
    assert PRESETS[preset].recipe.optimizer == SGD(0.1, weight_decay=5e-4)
    assert find_learner(name).recipe(PRESETS[preset]).optimizer == SGD(0.1, weight_decay=2e-4)


def test_late_epochs_of_drs_are_balanced_and_as_long() -> None:
    counts = (60, 25, 10, 5)
    learner = find_learner("ce-drs")
    late, plain = tiny_setting(learner, counts), tiny_setting(find_learner("ce"), counts)
    batches, usual = learner.batches(late), find_learner("ce").batches(plain)
    assert batches.n_batches == usual.n_batches == 13
    for epoch in (1, 160):
        for ours, theirs in zip(batches.epoch(epoch), usual.epoch(epoch), strict=True):
            assert torch.equal(ours.images, theirs.images)
            assert torch.equal(ours.labels, theirs.labels)
    labels = [np.concatenate([batch.labels for batch in batches.epoch(epoch)]) for epoch in range(161, 201)]
    assert {len(of_epoch) for of_epoch in labels} == {100}
    np.testing.assert_allclose(np.bincount(np.concatenate(labels)) / 4000, 0.25, atol=0.03)


def test_late_epochs_of_drs_can_be_taken_up_in_the_middle() -> None:
    learner = find_learner("ce-drs")
    whole = list(learner.batches(tiny_setting(learner)).epoch(170))
    rest = list(learner.batches(tiny_setting(learner)).epoch(170, start=1))
    assert len(rest) == len(whole) - 1
    assert all(torch.equal(a.images, b.images) for a, b in zip(whole[1:], rest, strict=True))
