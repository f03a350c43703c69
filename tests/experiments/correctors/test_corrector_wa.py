"""WA: its ratio by hand, weights that are never negative, and a single alignment per step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from hand_made_step import hand_made_step, linear, pixels
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits
from safetensors.torch import load_file

from energyalign.core._io.signals import Interrupted
from energyalign.experiments.correctors.wa import WeightAligning
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.incremental.learners.distill import WA
from energyalign.experiments.incremental.step import Step
from energyalign.experiments.nets.heads import CosineHead
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.loop import Loss

OLD, NEW = [[3.0, 4.0], [0.0, 1.0]], [[6.0, 8.0], [0.0, 2.0], [12.0, 0.0]]  # of lengths 5, 1 and 10, 2, 12


def after_step(head: torch.nn.Module) -> Trained:
    return hand_made_step(head, (2, head.out_features - 2), pixels([[1, 1]], [2], head.out_features))


def test_new_rows_times_the_ratio_of_mean_lengths() -> None:
    """The ratio is 3 / 8, and the bias stays."""
    head = linear(OLD + NEW, [1.0, 2.0, 3.0, 4.0, 5.0])
    corrected = WeightAligning().correct(after_step(head), EvidencePlan())
    assert corrected.details == {"gamma": 0.375}
    assert corrected.network.head.weight.tolist() == [*OLD, [2.25, 3.0], [0.0, 0.75], [4.5, 0.0]]
    assert corrected.network.head.bias.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert head.weight.tolist() == OLD + NEW  # as trained


def test_weights_of_zero_stay() -> None:
    corrected = WeightAligning().correct(after_step(linear([*OLD, [0.0, 0.0]])), EvidencePlan())
    assert corrected.details == {"gamma": 1.0}
    assert corrected.network.head.weight.tolist() == [*OLD, [0.0, 0.0]]


def test_a_cosine_head_says_the_same_as_before() -> None:
    head = CosineHead(2, 5)
    head.weight.data = torch.tensor(OLD + NEW)
    corrected = WeightAligning().correct(after_step(head), EvidencePlan())
    assert corrected.details == {"gamma": 0.375}
    features = torch.tensor([[1.0, 0.2], [0.3, 2.0], [-1.0, 0.5]])
    torch.testing.assert_close(corrected.network.head(features), head(features))


@dataclass(frozen=True)
class Watched(WA):
    """Records the head and the teacher at the beginning of each step, and the smallest weight of each forward pass."""

    starts: ClassVar[dict[int, tuple[torch.Tensor, torch.nn.Module | None]]] = {}
    smallest: ClassVar[list[float]] = []

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        self.starts[step.number] = network.head.weight.detach().clone(), teacher
        super().learn(step, network, teacher)

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
        inner = super().loss(step, teacher)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            self.smallest.append(float(model.head.weight.detach().min()))
            return inner(model, batch, epoch)

        return loss


CONFIG = digits_config(Watched(), epochs=2, n_steps=3, corrector="wa")  # 4, 3 and 3 classes


def test_weights_are_never_negative(tmp_path: Path) -> None:
    Watched.smallest.clear()
    run_digits(tmp_path / "run", CONFIG)
    assert len(Watched.smallest) > 50
    assert set(Watched.smallest) == {0.0}
    for step in (1, 2, 3):
        weights = load_file(tmp_path / "run" / f"step-{step:02d}" / "network.safetensors")
        assert float(weights["head.weight"].min()) == 0.0
        assert float(weights["backbone.layers.0.weight"].min()) < 0


def test_the_head_has_no_bias(tmp_path: Path) -> None:
    """It has none in the first step and gets none when it grows: a bias would absorb what weights cannot express."""
    run_digits(tmp_path / "run", CONFIG)
    for step in (1, 2, 3):
        weights = load_file(tmp_path / "run" / f"step-{step:02d}" / "network.safetensors")
        assert "head.weight" in weights
        assert "head.bias" not in weights


def test_student_and_teacher_of_the_next_step_are_aligned_once(tmp_path: Path) -> None:
    """In an uninterrupted run, and if the step before was loaded from its file, which has the network as trained."""
    rows = run_digits(tmp_path / "whole", CONFIG, "wa")
    whole, teacher = Watched.starts[3]
    trained = load_file(tmp_path / "whole" / "step-02" / "network.safetensors")["head.weight"]
    gamma = rows[1].details["gamma"]
    lengths = trained.norm(dim=1)
    assert gamma == pytest.approx(float(lengths[:4].mean() / lengths[4:].mean()), rel=1e-5)
    assert gamma < 0.97
    torch.testing.assert_close(whole[:7], torch.cat([trained[:4], trained[4:] * gamma]))
    assert teacher is not None
    torch.testing.assert_close(teacher.head.weight, whole[:7], rtol=0, atol=0)

    with pytest.raises(Interrupted):
        run_digits(tmp_path / "cut", CONFIG, "wa", reporter=StopAt("step 3 of 3", epoch=2, batch=5))
    run_digits(tmp_path / "cut", CONFIG, "wa")
    resumed, _ = Watched.starts[3]
    torch.testing.assert_close(resumed, whole, rtol=0, atol=0)
    assert bytes_of_steps(tmp_path / "cut") == bytes_of_steps(tmp_path / "whole")


def test_the_weight_of_the_teacher_is_the_part_of_old_classes() -> None:
    """The learner ignores the cell: lambda for digits would be half as large."""
    after = hand_made_step(linear([[1.0]] * 10), (4, 4, 2), pixels([[1]], [9], 10))
    assert after.config.lambda_base == 0.5
    assert WA().weight(after.ground) == 0.8
