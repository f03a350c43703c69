"""DER: its losses by hand, which parts grow and which are frozen, and that it learns and resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits, setting_of
from safetensors.torch import load_file
from tiny_setting import TinyBatch
from tiny_step import tiny_step

from energyalign import EnergyAlignError
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.learners.der import DER
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.presets import preset_for

IMAGES = torch.zeros(2, 1, 8, 8)


class Says(torch.nn.Module):
    """Returns fixed logits of both heads."""

    def __init__(self, logits: torch.Tensor, auxiliary: torch.Tensor) -> None:
        super().__init__()
        self.logits, self.auxiliary = logits, auxiliary

    def forward(self, _images: torch.Tensor, *, with_auxiliary: bool = False) -> object:
        return (self.logits, self.auxiliary) if with_auxiliary else self.logits


def test_the_losses_by_hand() -> None:
    """Two old and two new classes: for the auxiliary head, label 1 is 0 (all old classes), and label 3 is 2."""
    step = tiny_step(DER(), (2, 2, 2, 2), (2, 2), memory="herding:40")
    model = Says(
        torch.log(torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]])),
        torch.log(torch.tensor([[3.0, 1.0, 1.0], [1.0, 1.0, 2.0]])),
    )
    batch = TinyBatch(IMAGES, torch.tensor([1, 3]))
    entropy = (np.log(10 / 2) + np.log(4)) / 2
    auxiliary = (np.log(5 / 3) + np.log(2)) / 2
    assert float(DER(weight=3.0).loss(step, None)(model, batch, 1)) == pytest.approx(entropy + 3 * auxiliary)
    # At temperature 2, odds become their square roots: 1, 4, 4, 16 become 1, 2, 2, 4.
    odds = Says(torch.log(torch.tensor([[1.0, 4.0, 4.0, 16.0]])), torch.zeros(1, 3))
    softened = DER(temperature=2.0).softened_loss(odds, TinyBatch(IMAGES[:1], torch.tensor([3])), 1)
    assert float(softened) == pytest.approx(np.log(9 / 4))


def test_a_step_adds_a_copy_of_the_last_backbone() -> None:
    learner = DER()
    first = learner.start(tiny_step(learner, (2, 2), (2,), memory="herding:40"), None)
    assert first.auxiliary is None
    second = learner.start(tiny_step(learner, (2, 2, 2), (2, 1), memory="herding:40"), first)
    assert len(second.backbone.parts) == 2
    for name, value in second.backbone.parts[1].state_dict().items():
        assert torch.equal(value, first.backbone.parts[0].state_dict()[name])
    assert second.head.weight.shape == (3, 128)
    assert torch.equal(second.head.weight[:2, :64], first.head.weight)
    assert second.head.bias is None
    assert second.auxiliary.out_features == 2
    assert [any(p.requires_grad for p in part.parameters()) for part in second.backbone.parts] == [False, True]
    third = learner.start(tiny_step(learner, (2,) * 4, (2, 1, 1), memory="herding:40"), second)
    assert [any(p.requires_grad for p in part.parameters()) for part in third.backbone.parts] == [False, False, True]


def test_it_learns_and_resumes_and_former_backbones_stay(tmp_path: Path) -> None:
    config = digits_config(DER(), epochs=3, n_steps=2, batch_size=16, memory="herding:40")
    whole = run_digits(tmp_path / "whole", config, per_class=20)
    assert whole[-1].overall > 0.3
    for stage in ("step 2 of 2", "step 2 of 2 balanced"):
        with pytest.raises(Interrupted):
            run_digits(tmp_path / "stopped", config, reporter=StopAt(stage, epoch=1, batch=2), per_class=20)
    assert run_digits(tmp_path / "stopped", config, per_class=20) == whole
    assert bytes_of_steps(tmp_path / "stopped") == bytes_of_steps(tmp_path / "whole")
    first, second = (load_file(tmp_path / "whole" / f"step-0{k}" / "network.safetensors") for k in (1, 2))
    kept = [name for name in first if name.startswith("backbone.")]
    assert kept
    assert all(torch.equal(first[name], second[name]) for name in kept)
    assert not all(torch.equal(first[name], second[name.replace("parts.0", "parts.1")]) for name in kept)


def test_what_it_cannot_work_with_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match=r"der balances new classes .* memory none"):
        DER().check(digits_config(DER(), epochs=1, memory="none"))
    features = IncrementalConfig.from_preset(
        preset_for("features:x.npz", 3), DER(), seed=0, memory=MemoryPlan("herding", 20)
    )
    with pytest.raises(EnergyAlignError, match="identity has nothing to train: give --backbone mlp"):
        DER().check(features)
    setting = setting_of(digits_config(DER(), epochs=1, memory="herding:40"))
    with pytest.raises(EnergyAlignError, match="a network of der has more features in every step"):
        find_corrector("scail").check(setting)
