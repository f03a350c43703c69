"""RPS-net: its loss by hand, when and how a path is chosen, that former paths stay, and that it learns and resumes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits
from safetensors.numpy import load_file
from tiny_setting import TinyBatch, says

from energyalign import EnergyAlignError
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.engine import outputs as engine_outputs
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.learners.rps import RandomPathSelection
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.experiments.nets.network import Network
from energyalign.experiments.nets.random_paths import RandomPaths
from energyalign.experiments.train.recipe import Adam, Constant, Recipe
from energyalign.experiments.train.reporter import Reporter


class FakeStep:
    """A step that records its trainings instead of running them."""

    config = SimpleNamespace(backbone="rps-small")
    recipe = Recipe(20, 4, Adam(), Constant())
    workers = 0
    fabric = SimpleNamespace(device="cpu")

    def __init__(self, number: int, counts: list[int], n_new: int = 1) -> None:
        labels = np.repeat(np.arange(len(counts)), counts)
        # The value of an image is its index, so that it can be recognised.
        pixels = torch.arange(len(labels), dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 1, 4, 4).clone()
        names = tuple(str(k) for k in range(len(counts)))
        self.train = MemoryImages("toy", pixels, labels, names, SmallPreparation(Normalisation((0.5,), (0.25,))))
        self.number, self.n_seen, self.n_old = number, len(counts), len(counts) - n_new
        self.reporter = Reporter()
        self.trained: list[dict[str, Any]] = []

    def seed(self, *what: str | int) -> int:
        return len(str(what)) + self.number

    def loader(self, images: MemoryImages, *, purpose: str) -> set[int]:
        assert purpose.startswith("candidate-")
        return numbers_of(images)

    def train_network(self, network: Network, _loss: object, **options: Any) -> None:
        network.order = len(self.trained)
        state = {name: value.clone() for name, value in network.state_dict().items()}
        self.trained.append({"network": network, "state": state} | options)
        network.head.bias.data += 1  # what it learned


def numbers_of(images: MemoryImages) -> set[int]:
    return set(images.images[:, 0, 0, 0].tolist())


def small_network(n_classes: int) -> Network:
    torch.manual_seed(0)
    return Network(RandomPaths((4, 4, 8), in_channels=1, n_modules=5), torch.nn.Linear(8, n_classes))


@pytest.mark.parametrize(
    ("jump", "weights"), [(2, [1.0, 1.0, 1.0, 2.5, 5.0, 7.5, 10.0]), (1, [1.0, 1.0, 2.5, 5.0]), (3, [1.0] * 4 + [2.5])]
)
def test_the_weight_of_the_teacher_grows_with_the_steps(jump: int, weights: list[float]) -> None:
    learner = RandomPathSelection(jump=jump)
    assert [learner.weight(FakeStep(1 + i, [2, 2])) for i in range(len(weights))] == weights  # type: ignore[arg-type]


def test_photographs_have_a_weight_of_their_own() -> None:
    step = FakeStep(5, [2, 2])
    step.config = SimpleNamespace(backbone="rps-large")
    assert RandomPathSelection().weight(step) == 20.0  # type: ignore[arg-type]


def test_the_loss_by_hand() -> None:
    """Two old classes and one new class, in step 5; at temperature 2, odds become their square roots."""
    logits = torch.log(torch.tensor([[1.0, 9.0, 6.0], [4.0, 4.0, 8.0]]))
    taught = torch.log(torch.tensor([[1.0, 1.0], [16.0, 1.0]]))
    batch = TinyBatch(torch.zeros(2, 1, 4, 4), torch.tensor([0, 2]))
    # softmax over all: 1/16 and 8/16. Old classes, softened: (1/4, 3/4), (1/2, 1/2); teacher (1/2, 1/2), (4/5, 1/5).
    entropy = (np.log(16) + np.log(2)) / 2
    first = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    second = 0.8 * np.log(0.8 / 0.5) + 0.2 * np.log(0.2 / 0.5)
    step = FakeStep(5, [2, 2, 2])
    loss = RandomPathSelection().loss(step, says(taught))(says(logits), batch, 1)  # type: ignore[arg-type]
    assert float(loss) == pytest.approx(entropy + 5.0 * (first + second) / 2)
    alone = RandomPathSelection().loss(step, None)(says(logits), batch, 1)  # type: ignore[arg-type]
    assert float(alone) == pytest.approx(entropy)


@pytest.mark.parametrize(("jump", "due"), [(2, [3, 5, 7]), (1, [2, 3, 4, 5, 6, 7]), (3, [4, 7])])
def test_a_new_path_is_due_after_every_jump(jump: int, due: list[int]) -> None:
    learner, opened = RandomPathSelection(jump=jump, candidates=1), []
    for number in range(1, 8):
        step, network = FakeStep(number, [3, 3]), small_network(2)
        learner.learn(step, network, None)  # type: ignore[arg-type]
        assert len(step.trained) == 1  # no choice, no trial
        if network.backbone.active.sum() > 3:
            opened.append(number)
    assert opened == due


def test_the_best_on_images_it_was_not_trained_on_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    step, network = FakeStep(3, [10, 10, 40]), small_network(3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    compared: list[set[int]] = []

    def fake_outputs(candidate: Network, images: MemoryImages, **_: object) -> np.ndarray:
        """The third path is right on two of three classes; the others on one, which has two thirds of the images."""
        compared.append(numbers_of(images))
        labels = images.labels
        answers = np.where(labels == 2, 0, labels) if candidate.order == 2 else np.full_like(labels, 2)
        return np.eye(3, dtype=np.float32)[answers]

    monkeypatch.setattr(engine_outputs, "outputs", fake_outputs)
    RandomPathSelection(candidates=5).learn(step, network, None)  # type: ignore[arg-type]
    *candidates, final = step.trained
    assert [one["stage"] for one in candidates] == [f"candidate-{k}" for k in range(1, 6)]
    assert [one["recipe"].epochs for one in candidates] == [2] * 5  # a tenth of twenty
    assert set(final) == {"network", "state"}
    assert final["network"] is network
    chosen = candidates[2]["state"]
    # The path is kept, the candidate's weights are not.
    assert torch.equal(network.backbone.active, chosen["backbone.active"])
    assert torch.equal(network.backbone.trainable, chosen["backbone.trainable"])
    assert len({tuple(one["state"]["backbone.active"].flatten().tolist()) for one in candidates}) > 1
    assert all(candidates[k]["network"] is not network for k in range(5))
    changed = {name for name, value in final["state"].items() if not torch.equal(value, before[name])}
    assert changed == {"backbone.active", "backbone.trainable"}
    for one, images in zip(candidates, compared, strict=True):
        assert images == compared[0]
        assert images.isdisjoint(one["batches"])
        assert images | one["batches"] == set(range(60))


def test_a_tenth_of_each_class_is_for_comparison_and_never_more_than_half() -> None:
    step = FakeStep(3, [100, 20, 9, 2, 1, 0])
    train, compared = RandomPathSelection()._split(step)  # type: ignore[arg-type]
    labels = step.train.labels
    np.testing.assert_array_equal(np.bincount(labels[compared], minlength=6), [10, 2, 1, 1, 0, 0])
    np.testing.assert_array_equal(np.sort(np.concatenate([train, compared])), np.arange(132))


def test_nothing_to_compare_by_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="no class of step 3 has two training images"):
        RandomPathSelection()._split(FakeStep(3, [1, 1]))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"candidates": 0}, {"jump": 0}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(EnergyAlignError, match=">= 1, got"):
        RandomPathSelection(**wrong)  # type: ignore[arg-type]


def test_network_and_recipe_are_its_own() -> None:
    learner = find_learner("rps")
    assert [learner.backbone(name) for name in ("resnet32", "small-cnn", "resnet8", "rps-small")] == ["rps-small"] * 4
    assert [learner.backbone(name) for name in ("resnet18", "resnet50-bbn", "rps-large")] == ["rps-large"] * 3
    cell = PRESETS["cifar100-il-10"].recipe
    recipe = learner.recipe(PRESETS["cifar100-il-10"])
    assert (recipe.epochs, recipe.batch_size) == (cell.epochs, cell.batch_size)
    hundred = recipe.lasting(100)
    rates = [hundred.lr(epoch) for epoch in (1, 20, 21, 41, 61, 81, 100)]
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4, 6.25e-5, 6.25e-5])
    assert recipe.optimizer == Adam(1e-3, weight_decay=0.0)


LEARNER = RandomPathSelection(candidates=2, jump=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    folder = tmp_path_factory.mktemp("rps") / "run"
    config = digits_config(LEARNER, epochs=4, n_steps=2, batch_size=16)
    return folder, run_digits(folder, config, per_class=30)


def test_it_learns(finished: tuple[Path, list[Row]]) -> None:
    """Five classes first, then all ten, with eight exemplars of each old class."""
    first, last = finished[1]
    assert first.overall > 0.6
    assert last.overall > 0.25
    assert last.new > 0.4


def test_former_paths_stay_as_they_were(finished: tuple[Path, list[Row]]) -> None:
    first, second = (load_file(finished[0] / f"step-0{number}" / "network.safetensors") for number in (1, 2))
    active, later = first["backbone.active"], second["backbone.active"]
    np.testing.assert_array_equal(active, np.eye(1, 8, dtype=bool).repeat(9, axis=0))
    np.testing.assert_array_equal(later & ~active, second["backbone.trainable"])
    assert later.sum() > active.sum()
    for name, value in first.items():
        parts = name.split(".")
        if parts[1] == "levels":
            learned = bool(second["backbone.trainable"][int(parts[2]), int(parts[4])])
            assert np.array_equal(value, second[name]) != learned, name


def test_interrupted_and_resumed_it_ends_the_same(tmp_path: Path) -> None:
    """Interrupted in the training of a candidate, and in the final training."""
    config = digits_config(LEARNER, epochs=2, n_steps=2, batch_size=16)

    def run(name: str, reporter: Reporter | None = None) -> list[Row]:
        return run_digits(tmp_path / name, config, reporter=reporter, per_class=6)

    expected = run("straight")
    for stage, epoch in (("step 2 of 2 candidate-2", 1), ("step 2 of 2", 2)):
        with pytest.raises(Interrupted):
            run("stopped", StopAt(stage, epoch=epoch, batch=2))
    assert run("stopped") == expected
    assert bytes_of_steps(tmp_path / "stopped") == bytes_of_steps(tmp_path / "straight")
