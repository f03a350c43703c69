"""EEIL: its loss, its noise, its two stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_setting import TinyBatch, says
from tiny_step import tiny_step

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.learners.eeil import EEIL, choose_balanced, make_stages, repeat_shuffled
from energyalign.experiments.incremental.memory import herding_order
from energyalign.experiments.incremental.step import Step
from energyalign.experiments.nets.network import Network, make_network
from energyalign.experiments.train.recipe import SGD, Recipe, Steps

COUNTS, SIZES = (3, 2, 3, 8, 6), (2, 1, 2)


class Stage(NamedTuple):
    """Arguments of a training."""

    name: str
    recipe: Recipe
    counts: list[int]
    loss: float
    noise: torch.Tensor


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values)
    return powers / powers.sum(axis=1, keepdims=True)


def batch_of(labels: list[int]) -> TinyBatch:
    return TinyBatch(torch.zeros(len(labels), 1, 8, 8), torch.tensor(labels))


@pytest.mark.parametrize(("n_taught", "groups"), [(3, [(0, 2), (2, 3)]), (5, [(0, 2), (2, 3), (3, 5)])])
def test_loss_against_numpy(n_taught: int, groups: list[tuple[int, int]]) -> None:
    """With the teachers of the first and of the second stage; the latter knows the newest group too."""
    rng = np.random.default_rng(0)
    logits, taught, labels = rng.normal(size=(4, 5)), rng.normal(size=(4, n_taught)), [0, 4, 2, 3]
    expected = -np.log(softmax(logits)[range(4), labels])
    for first, end in groups:
        mine, theirs = softmax(logits[:, first:end] / 2), softmax(taught[:, first:end] / 2)
        expected = expected - (theirs * np.log(mine)).sum(axis=1)
    loss = EEIL().loss(tiny_step(EEIL(), COUNTS, SIZES), says(torch.from_numpy(taught)))
    assert float(loss(says(torch.from_numpy(logits)), batch_of(labels), 1)) == pytest.approx(expected.mean())


def test_first_step_has_cross_entropy_alone() -> None:
    loss = EEIL().loss(tiny_step(EEIL(), (2, 2), (2,)), None)
    assert float(loss(says(torch.zeros(3, 2)), batch_of([0, 1, 1]), 1)) == pytest.approx(np.log(2))


def test_noise_falls_with_the_epochs_and_is_for_the_sum_over_a_batch() -> None:
    assert EEIL().noise_std(1, 1) == pytest.approx(0.3 / 2**0.55)
    assert EEIL().noise_std(69, 128) == pytest.approx(0.3 / 70**0.55 / 128)


def test_epochs_are_divided_as_40_to_30() -> None:
    recipe = Recipe(70, 32, SGD(0.1, weight_decay=3e-4), Steps((36,), 0.1, 70))
    first, second = make_stages(recipe)
    assert first == replace(recipe, epochs=40)
    assert (second.epochs, second.batch_size, second.schedule) == (30, 32, recipe.schedule)
    assert (second.lr(1), second.optimizer) == (pytest.approx(0.01), replace(recipe.optimizer, lr=0.1 / 10))
    assert [part.epochs for part in make_stages(recipe.lasting(20))] == [11, 9]
    assert [part.epochs for part in make_stages(recipe.lasting(1))] == [1, 1]


def test_balanced_images_are_the_exemplars_and_the_first_of_each_new_class_by_herding() -> None:
    """Old classes have 3, 2 and 3 exemplars, so each new class gives 3 images."""
    step = tiny_step(EEIL(), COUNTS, SIZES)
    network = make_network("small-cnn", 5, head="linear", in_channels=1).eval()
    places = choose_balanced(step, network)
    with torch.no_grad():
        features = network.features(step.train.preparation.normalise(step.train.images)).double().numpy()
    new = [8 + herding_order(features[8:16], 3), 16 + herding_order(features[16:], 3)]
    assert places.tolist() == [*new[0], *new[1], *range(8)]


def test_a_new_class_with_few_images_gives_all() -> None:
    step = tiny_step(EEIL(), (4, 2, 8), (1, 2))
    places = choose_balanced(step, make_network("small-cnn", 3, head="linear", in_channels=1))
    assert np.bincount(step.train.labels[places]).tolist() == [4, 2, 4]


@given(n_images=st.integers(1, 20), n_shown=st.integers(1, 60), epoch=st.integers(1, 9))
def test_images_take_turns(n_images: int, n_shown: int, epoch: int) -> None:
    """No image is shown again before all others were shown."""
    order = repeat_shuffled(n_images, n_shown, seed=4)
    shown = order(epoch)
    counts = np.bincount(shown, minlength=n_images)
    assert len(shown) == n_shown
    assert len(counts) == n_images
    assert counts.max() - counts.min() <= 1
    assert order(epoch).tolist() == shown.tolist()
    assert n_images < 8 or n_shown < 8 or order(epoch + 1).tolist() != shown.tolist()


def stages_of(monkeypatch: pytest.MonkeyPatch, step: Step, network: Network, teacher: Any) -> list[Stage]:
    """Return the trainings that `learn` requests; here a training sets all weights to zero and records its noise."""
    found: list[Stage] = []

    def train_network(
        self: Step, trained: Network, loss: Any, *, stage: str = "training", recipe: Any = None, batches: Any = None
    ) -> None:
        batches = batches or self.loader()
        labels = torch.cat([batch.labels for batch in batches.epoch(1)])
        value = loss(says(torch.zeros(2, self.n_seen)), batch_of([0, 1]), 2)
        weight = trained.head.weight
        torch.manual_seed(3)
        (0.0 * weight).sum().backward()
        found.append(Stage(stage, recipe or self.recipe, torch.bincount(labels).tolist(), float(value), weight.grad))
        for parameter in trained.parameters():
            parameter.data.zero_()
            parameter.grad = None

    monkeypatch.setattr(Step, "train_network", train_network)
    EEIL().learn(step, network, teacher)
    return found


def test_two_stages_from_the_second_step_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """7 epochs are divided into 4 and 3. The teacher of the second stage is the result of the first: here all zeros.

    Its 14 images are shown 22 times in an epoch, as many as the first stage shows.
    """
    step = tiny_step(EEIL(), COUNTS, SIZES)
    network = make_network("small-cnn", 5, head="linear", in_channels=1)
    sure = torch.tensor([[100.0, 0.0, 0.0]] * 2)
    first, second = stages_of(monkeypatch, step, network, says(sure))
    assert (first.name, first.recipe.epochs, first.counts) == ("training", 4, list(COUNTS))
    assert (second.name, second.recipe.epochs) == ("balanced", 3)
    assert (sum(first.counts), sum(second.counts)) == (22, 22)
    assert all(each <= shown <= 2 * each for each, shown in zip((3, 2, 3, 3, 3), second.counts, strict=True))
    assert second.recipe.lr(1) == pytest.approx(first.recipe.lr(1) / 10)
    # A teacher's output costs the logarithm of the size of its group if the student is undecided.
    assert first.loss == pytest.approx(np.log(5) + np.log(2))
    assert second.loss == pytest.approx(np.log(5) + np.log(2) + np.log(2))
    for stage, epoch in ((first, 2), (second, 4 + 2)):
        torch.manual_seed(3)
        expected = 0.3 / (1 + epoch) ** 0.55 / 32 * torch.randn(5, network.head.in_features)
        torch.testing.assert_close(stage.noise, expected)


def test_one_stage_with_all_epochs_in_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    step = tiny_step(EEIL(), (4, 2), (2,))
    found = stages_of(monkeypatch, step, make_network("small-cnn", 2, head="linear", in_channels=1), None)
    assert [(stage.name, stage.recipe.epochs, stage.counts) for stage in found] == [("training", 7, [4, 2])]


@pytest.mark.parametrize(("changed", "what"), [({"memory": "none"}, "keeps no exemplars"), ({}, "16-mixed")])
def test_what_cannot_be_is_refused_before_training(changed: dict[str, str], what: str) -> None:
    step = tiny_step(EEIL(), (4, 2), (2,), **changed)
    if not changed:
        step = replace(step, config=replace(step.config, precision="16-mixed"))
    with pytest.raises(EnergyAlignError, match=what):
        EEIL().check(step.config)
