"""Heads with other shapes: the shifts are added to the bias of their last layer, and equal those from arrays."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from energyalign import EnergyAlignError, Evidence, fit_shifts
from energyalign.core.multilabel import MultilabelEvidence, fit_multilabel
from energyalign.pytorch import AlignedModel, align, fold_shifts
from energyalign.pytorch.store import LogitStore


class Upsampled(nn.Module):
    """Classes on a coarse map, enlarged to the image, as in segmentation networks."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(2, 3, 3, padding=1)
        self.head = nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        coarse = self.head(F.relu(self.body(F.avg_pool2d(x, 2))))
        return F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.words(x)))


class Functional(nn.Module):
    """A head of any form that is not a module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 1.5


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(n_classes: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    inputs = torch.randn(12, 2, 8, 6, generator=generator())
    labels = (torch.rand(12, 8, 6, generator=generator(1)) * n_classes).long()
    labels[:, 0] = 255
    return [(inputs[i : i + 4], labels[i : i + 4]) for i in (0, 4, 8)]


def tokens() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return batches of different lengths."""
    made = []
    for length in (5, 9):
        words = torch.randint(0, 20, (6, length), generator=generator(length))
        labels = words % 3
        labels[:, -2:] = 255
        made.append((words, labels))
    return made


DENSE = {
    "convolution": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1)), pixels),
    "without bias": (lambda: nn.Sequential(nn.Conv2d(2, 3, 1, bias=False)), pixels),
    "upsampled": (Upsampled, pixels),
    "tokens": (Tagger, tokens),
}


@pytest.fixture(params=DENSE)
def dense(request: pytest.FixtureRequest) -> tuple[nn.Module, list[Any]]:
    torch.manual_seed(0)
    make, batches = DENSE[request.param]
    return make(), batches()


def rows_of(logits: torch.Tensor) -> torch.Tensor:
    return logits.movedim(1, -1).reshape(-1, 3) if logits.ndim == 4 else logits.reshape(-1, 3)


@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_tokens_and_pixels(dense: tuple[nn.Module, list[Any]]) -> None:
    model, batches = dense
    before = copy.deepcopy(model.state_dict())
    aligned = align(model, batches, estimator="marginal", clusters="per-class", evidence="held-out", ignore_index=255)
    assert type(aligned) is type(model)
    after = aligned.state_dict()
    changed = [name for name in after if name not in before or not torch.equal(before[name], after[name])]
    assert len(changed) == 1
    assert changed[0].endswith("bias")

    with torch.no_grad():
        raw = [rows_of(model(x)) for x, _ in batches]
        corrected = torch.cat([rows_of(aligned(x)) for x, _ in batches])
    labels = torch.cat([y.reshape(-1) for _, y in batches])
    kept = labels != 255
    evidence = Evidence.from_arrays(torch.cat(raw)[kept].numpy(), labels[kept].numpy(), kind="held-out")
    expected = fit_shifts(evidence, estimator="marginal", clusters="per-class")
    np.testing.assert_allclose(aligned.shifts_.values, expected.values, atol=1e-6)
    assert np.ptp(expected.values) > 0.01
    wanted = torch.cat(raw) + torch.tensor(expected.values, dtype=torch.float32)
    torch.testing.assert_close(corrected, wanted, rtol=0, atol=1e-5)
    with torch.no_grad():
        predicted = np.concatenate([aligned.shifts_.predict(model(x)).reshape(-1) for x, _ in batches])
    np.testing.assert_array_equal(corrected.argmax(1).numpy(), predicted)


@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_strength_multiplies_what_was_fitted(dense: tuple[nn.Module, list[Any]]) -> None:
    model, batches = dense
    whole, half, raw = (
        align(model, batches, estimator="marginal", ignore_index=255, strength=strength) for strength in (1, 0.5, 0)
    )
    np.testing.assert_allclose(half.shifts_.values, whole.shifts_.values / 2)
    x = batches[0][0]
    with torch.no_grad():
        torch.testing.assert_close(raw(x), model(x))
        torch.testing.assert_close(half(x), (model(x) + whole(x)) / 2)


@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_a_wrapper_adds_in_the_same_form(dense: tuple[nn.Module, list[Any]]) -> None:
    model, batches = Functional(dense[0]), dense[1]
    with pytest.warns(UserWarning, match="AlignedModel wrapper"):
        aligned = align(model, batches, estimator="marginal", ignore_index=255)
    assert isinstance(aligned, AlignedModel)
    with torch.no_grad():
        logits = model(batches[0][0])
        torch.testing.assert_close(aligned(batches[0][0]), aligned.shifts_.apply(logits))


@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_pixels_of_an_image_stay_together() -> None:
    torch.manual_seed(0)
    model, batches = nn.Conv2d(2, 3, 1), pixels()
    aligned = align(model, batches, evidence="held-out", ignore_index=255)
    with torch.no_grad():
        logits = torch.cat([model(x) for x, _ in batches])
    labels = torch.cat([y for _, y in batches])
    expected = fit_shifts(Evidence.from_arrays(logits.numpy(), labels.numpy(), kind="held-out", ignore_index=255))
    np.testing.assert_allclose(aligned.shifts_.values, expected.values, atol=1e-5)
    assert aligned.shifts_.strength == pytest.approx(expected.strength, abs=1e-6)


class OneLogit(nn.Module):
    def __init__(self, *, column: bool) -> None:
        super().__init__()
        self.head, self.column = nn.Linear(6, 1), column

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) if self.column else self.head(x).squeeze(-1)


def sides() -> list[tuple[torch.Tensor, torch.Tensor]]:
    labels = (torch.rand(200, generator=generator(1)) < 0.2).float()
    inputs = torch.randn(200, 6, generator=generator()) + labels[:, None]
    return [(inputs[i : i + 50], labels[i : i + 50]) for i in range(0, 200, 50)]


@pytest.mark.parametrize("column", [True, False])
@pytest.mark.parametrize("labels", ["as the loss takes them", "integers"])
@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_one_logit(column: bool, labels: str) -> None:
    torch.manual_seed(0)
    model, batches = OneLogit(column=column), sides()
    if labels == "integers":
        batches = [(x, y.long()) for x, y in batches]
    elif column:
        batches = [(x, y[:, None]) for x, y in batches]
    aligned = align(model, batches, estimator="marginal", counts=[160, 40])
    common, rare = aligned.shifts_.values
    assert (aligned.head.bias - model.head.bias).item() == pytest.approx(rare - common, abs=1e-6)
    inputs = torch.cat([x for x, _ in batches])
    scores = model(inputs).detach().numpy().reshape(-1)
    two = np.column_stack([np.zeros_like(scores), scores])
    truth = np.concatenate([y.reshape(-1).numpy() for _, y in batches]).astype(int)
    expected = fit_shifts(Evidence.from_arrays(two, truth, counts=[160, 40]), estimator="marginal")
    np.testing.assert_allclose(aligned.shifts_.values, expected.values, atol=1e-6)
    np.testing.assert_array_equal((aligned(inputs) > 0).numpy().reshape(-1), expected.predict(two))


@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_one_logit_in_a_wrapper() -> None:
    torch.manual_seed(0)
    model, batches = Functional(OneLogit(column=False)), sides()
    with pytest.warns(UserWarning, match="AlignedModel wrapper"):
        aligned = align(model, batches, estimator="marginal")
    torch.testing.assert_close(aligned(batches[0][0]), aligned.shifts_.apply(model(batches[0][0])))


@pytest.mark.parametrize("kind", [torch.float32, torch.int64])
@pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")
def test_independent_labels(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 3))
    labels = (torch.rand(200, 3, generator=generator()) < torch.tensor([0.1, 0.3, 0.5])).to(kind)
    inputs = torch.randn(200, 6, generator=generator(1)) + F.pad(labels.float(), (0, 3))
    batches = [(inputs[i : i + 50], labels[i : i + 50]) for i in range(0, 200, 50)]
    names = ["rain", "fog", "wind"]
    aligned = align(model, batches, estimator="marginal", evidence="held-out", multilabel=True, class_names=names)
    with torch.no_grad():
        logits = model(inputs)
        corrected = aligned(inputs)
    evidence = MultilabelEvidence.from_arrays(logits.numpy(), labels.numpy(), kind="held-out")
    expected = fit_multilabel(evidence, estimator="marginal")
    np.testing.assert_allclose(aligned.shifts_.values, expected.values, atol=1e-6)
    assert aligned.shifts_.class_names == tuple(names)
    np.testing.assert_allclose(aligned[0].bias.detach() - model[0].bias.detach(), expected.values, atol=1e-6)
    np.testing.assert_array_equal((corrected > 0).numpy(), expected.predict(logits))

    again = copy.deepcopy(model)
    assert fold_shifts(again, aligned.shifts_, batches[0]) == "0"
    torch.testing.assert_close(again(inputs), aligned(inputs))


def test_labels_that_do_not_fit() -> None:
    model = nn.Sequential(nn.Linear(6, 3))
    with pytest.raises(EnergyAlignError, match=r"labels must have the shape of the logits, \(5, 3\)"):
        align(model, [(torch.zeros(5, 6), torch.zeros(5, dtype=torch.long))], multilabel=True)
    with pytest.raises(EnergyAlignError, match=r"labels must have shape \(4, 8, 6\), one per position"):
        align(nn.Conv2d(2, 3, 1), [(torch.zeros(4, 2, 8, 6), torch.zeros(4, dtype=torch.long))])
    with pytest.raises(EnergyAlignError, match="with labels that are not ignored"):
        align(model, [(torch.zeros(5, 6), torch.full((5,), -100))])


def test_rows_of_a_batch_that_is_ignored_throughout_are_left_out() -> None:
    torch.manual_seed(0)
    model, batches = nn.Conv2d(2, 3, 1), pixels()
    nothing = (batches[0][0], torch.full_like(batches[0][1], 255))
    aligned, expected = (
        align(model, given, estimator="marginal", ignore_index=255) for given in ([nothing, *batches], batches)
    )
    assert aligned.shifts_.values.tolist() == expected.shifts_.values.tolist()


def test_a_sample_is_one_group_whatever_the_block() -> None:
    store = LogitStore()
    store.append(torch.zeros(3, 2), torch.zeros(3), torch.tensor([0, 0, 1]))
    store.append(torch.zeros(2, 2), torch.zeros(2))
    store.append(torch.zeros(2, 2), torch.zeros(2), torch.tensor([0, 2]))
    groups = store.groups()
    assert groups is not None
    assert groups.tolist() == [0, 0, 1, 2, 3, 4, 6]
