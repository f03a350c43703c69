"""FOSTER: both losses by hand, the start of boosting, and that it learns and resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits
from scipy.special import log_softmax, softmax
from tiny_setting import TinyBatch, says
from tiny_step import tiny_step

from energyalign import EnergyAlignError
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.incremental.learners.foster import Foster, class_weights

RNG = np.random.default_rng(0)
LOGITS, OF_NEW, TAUGHT = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))
BATCH = TinyBatch(torch.zeros(2, 1, 8, 8), torch.tensor([2, 0]))


class Boosted(torch.nn.Module):
    def forward(self, _images: torch.Tensor, *, with_auxiliary: bool) -> tuple[torch.Tensor, torch.Tensor]:
        assert with_auxiliary
        return torch.from_numpy(LOGITS), torch.from_numpy(OF_NEW)


def test_weights_are_larger_for_classes_with_few_images() -> None:
    step = tiny_step(Foster(), (1, 1, 2), (2, 1), memory="herding:40")
    # (1 - b) / (1 - b^n) with b = 1/2: 1, 1 and 2/3, which sum to 8/3; rescaled to sum to 3.
    np.testing.assert_allclose(class_weights(step, 0.5), [9 / 8, 9 / 8, 6 / 8], rtol=1e-6)


def test_boosting_by_hand() -> None:
    learner = Foster(beta=0.5, weight=0.3)
    step = tiny_step(learner, (1, 1, 2), (2, 1), memory="herding:40")
    aligned = LOGITS / np.array([9 / 8, 9 / 8, 6 / 8])
    entropies = [-log_softmax(values, axis=1)[[0, 1], [2, 0]].mean() for values in (aligned, OF_NEW)]
    kept = -(softmax(TAUGHT / 2, axis=1) * log_softmax(LOGITS[:, :2] / 2, axis=1)).sum(axis=1).mean()
    loss = learner.loss(step, says(torch.from_numpy(TAUGHT)))(Boosted(), BATCH, 1)
    assert float(loss) == pytest.approx(sum(entropies) + 0.3 * kept)


def test_compression_by_hand() -> None:
    learner = Foster(compression_beta=0.5)
    step = tiny_step(learner, (1, 1, 2), (2, 1), memory="herding:40")
    wanted = softmax(OF_NEW / 2, axis=1) * np.array([9 / 8, 9 / 8, 6 / 8])
    wanted /= wanted.sum(axis=1, keepdims=True)
    expected = -(wanted * log_softmax(LOGITS / 2, axis=1)).sum(axis=1).mean()
    loss = learner.compression_loss(step, says(torch.from_numpy(OF_NEW)))(says(torch.from_numpy(LOGITS)), BATCH, 1)
    assert float(loss) == pytest.approx(expected)


def test_boosting_begins_with_the_network_of_the_step_before() -> None:
    learner = Foster()
    before = learner.start(tiny_step(learner, (2, 2), (2,), memory="herding:40"), None)
    step = tiny_step(learner, (2, 2, 2), (2, 1), memory="herding:40")
    network = learner.start(step, before)
    boosted = learner.boost(step, network)
    images = torch.randn(3, 1, 8, 8)
    boosted.head.weight.data[:, 64:] = 0.0
    torch.testing.assert_close(boosted.eval()(images)[:, :2], before.eval()(images))
    assert [any(p.requires_grad for p in part.parameters()) for part in boosted.backbone.parts] == [False, True]
    assert all(p.requires_grad for p in network.parameters())


def test_it_learns_and_resumes(tmp_path: Path) -> None:
    config = digits_config(Foster(), epochs=4, n_steps=2, batch_size=16, memory="herding:40")
    whole = run_digits(tmp_path / "whole", config, per_class=20)
    assert whole[-1].overall > 0.3
    for stage in ("step 2 of 2 boosting", "step 2 of 2 compression"):
        with pytest.raises(Interrupted):
            run_digits(tmp_path / "stopped", config, reporter=StopAt(stage, epoch=1, batch=2), per_class=20)
    assert run_digits(tmp_path / "stopped", config, per_class=20) == whole
    assert bytes_of_steps(tmp_path / "stopped") == bytes_of_steps(tmp_path / "whole")


def test_no_exemplars_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match=r"foster balances new classes .* memory none"):
        Foster().check(digits_config(Foster(), epochs=1, memory="none"))
