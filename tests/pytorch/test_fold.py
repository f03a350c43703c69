"""Folding shifts into the bias of the head, or a reason why not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from energyalign import EnergyAlignError, Evidence, Shifts, fit_shifts
from energyalign.pytorch import AlignedModel, NotFolded, align, fold_shifts

COUNTS = [100, 40, 10, 4]
Batches = list[tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture
def shifts() -> Shifts:
    return fit_shifts(Evidence.from_arrays(np.zeros((8, 4)), counts=COUNTS), estimator="prior")


def test_saved_shifts_into_a_loaded_network(
    linear: nn.Module, batches: Batches, shifts: Shifts, tmp_path: Path
) -> None:
    shifts.save(tmp_path / "shifts.json")
    raw = copy.deepcopy(linear).eval()
    assert fold_shifts(linear, Shifts.load(tmp_path / "shifts.json"), batches[0]) == "4"
    torch.testing.assert_close(
        linear.eval()(batches[0][0]),
        raw(batches[0][0]) + torch.tensor(shifts.values, dtype=torch.float32),
        rtol=0,
        atol=1e-5,
    )


def test_shifts_are_folded_once(linear: nn.Module, batches: Batches, shifts: Shifts) -> None:
    fold_shifts(linear, shifts, batches[0])
    with pytest.raises(EnergyAlignError, match="already aligned"):
        fold_shifts(linear, shifts, batches[0])


def test_an_optimiser_still_holds_the_parameter(linear: nn.Module, batches: Batches, shifts: Shifts) -> None:
    bias = linear[-1].bias
    fold_shifts(linear, shifts, batches[0])
    assert linear[-1].bias is bias


def test_shifts_of_other_classes(batches: Batches, shifts: Shifts) -> None:
    with pytest.raises(EnergyAlignError, match="the shifts are for 4 classes, but the model has 3"):
        fold_shifts(nn.Linear(6, 3), shifts, batches[0])


class Doubled(nn.Module):
    """A bias on the last layer is doubled on its way; one class is masked."""

    def __init__(self, mask: float) -> None:
        super().__init__()
        self.last, self.mask = nn.Linear(6, 4), mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = 2.0 * self.last(x)
        return torch.cat([logits[:, :3], torch.full_like(logits[:, :1], self.mask)], dim=1)


@pytest.mark.parametrize("mask", [-torch.inf, -1e9, torch.finfo(torch.float32).min])
def test_masked_classes_do_not_hide_a_failure(mask: float, batches: Batches, shifts: Shifts) -> None:
    """One huge logit must not hide rounding errors of others."""
    network = Doubled(mask)
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(NotFolded, match="does not reach the logits unchanged"):
        fold_shifts(network, shifts, batches[0], head="last")
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


class HalfInside(nn.Module):
    """Autocast inside the model and float32 outside, as with accelerate."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.head(x).float()


def test_half_precision_inside_is_allowed_its_rounding(batches: Batches, shifts: Shifts) -> None:
    network = HalfInside()
    assert fold_shifts(network, shifts, batches[0]) == "head"


def test_many_features_are_allowed_their_rounding() -> None:
    """Logits near zero that are sums of many large numbers, as in ResNet-50."""
    torch.manual_seed(0)
    head, features = nn.Linear(2048, 1000), (100.0 + 50.0 * torch.randn(8, 2048)).clamp(min=0.0)
    many = fit_shifts(Evidence.from_arrays(np.zeros((8, 1000)), counts=np.arange(1000, 0, -1)), estimator="prior")
    assert fold_shifts(head, many, features) == ""


class TwoHeads(nn.Module):
    """The output of the first head equals the second's, which is the only one used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(6, 4)
        self.second.load_state_dict(self.first.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first(x)
        return self.second(x)


def test_of_two_that_look_alike_the_one_that_counts(batches: Batches, shifts: Shifts) -> None:
    assert fold_shifts(TwoHeads(), shifts, batches[0]) == "second"


def test_an_interruption_leaves_no_trial_behind(batches: Batches, shifts: Shifts) -> None:
    class Interrupting(nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls == 4:
                raise KeyboardInterrupt
            return super().forward(x)

    network = Interrupting(6, 4)
    before = network.bias.detach().clone()
    with pytest.raises(KeyboardInterrupt):
        fold_shifts(network, shifts, batches[0])
    assert torch.equal(network.bias, before)


@pytest.mark.parametrize("behind", [nn.ReLU(), nn.Hardtanh(-50.0, 50.0)])
def test_a_clamp_that_the_probe_does_not_touch_is_seen(behind: nn.Module, shifts: Shifts) -> None:
    """The clamp has no effect on these inputs, and the bias would look right; on others it would not."""
    network = nn.Sequential(nn.Linear(6, 4), behind)
    with torch.no_grad():
        network[0].bias.fill_(20.0)
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(NotFolded, match="does not reach the logits unchanged"):
        fold_shifts(network, shifts, torch.rand(8, 6))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_bias_that_was_created_is_taken_back_on_failure(batches: Batches, shifts: Shifts) -> None:
    network = nn.Sequential(nn.Linear(6, 4, bias=False), nn.Softplus())
    with pytest.raises(NotFolded, match="does not reach the logits"):
        fold_shifts(network, shifts, batches[0], head="0")
    assert network[0].bias is None


class Tied(nn.Module):
    """An auxiliary head shares the bias of the head."""

    def __init__(self) -> None:
        super().__init__()
        self.auxiliary = nn.Linear(6, 4)
        self.head = nn.Linear(6, 4)
        self.head.bias = self.auxiliary.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x)


def test_a_tied_bias_is_not_touched(batches: Batches, shifts: Shifts) -> None:
    network = Tied()
    before = network.auxiliary.bias.detach().clone()
    with pytest.raises(NotFolded, match="bias of module 'head' is tied to one of module 'auxiliary'"):
        fold_shifts(network, shifts, batches[0])
    with pytest.warns(UserWarning, match="AlignedModel wrapper"):
        aligned = align(network, batches, counts=COUNTS, estimator="prior")
    assert isinstance(aligned, AlignedModel)
    assert torch.equal(network.auxiliary.bias, before)


class Pretrained(nn.Module):
    """A model like Hugging Face's whose head was built without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(6, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.score(x)

    @classmethod
    def from_pretrained(cls, path: Any) -> Pretrained:
        raise NotImplementedError


def test_a_bias_that_loading_would_lose_is_told(batches: Batches, shifts: Shifts) -> None:
    with pytest.warns(UserWarning, match="head 'score' of this model had no bias and has one now"):
        fold_shifts(Pretrained(), shifts, batches[0])
