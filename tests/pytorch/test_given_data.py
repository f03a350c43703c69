"""Data sets and named counts, given in place of a loader or of counts in the order of the classes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from energyalign import EnergyAlignError
from energyalign.pytorch import align
from energyalign.pytorch.after_training import AfterTraining
from energyalign.pytorch.label_counts import LabelCounter

COUNTS = [100, 40, 10, 4]
Batches = list[tuple[torch.Tensor, torch.Tensor]]
OPTIONS: dict[str, Any] = {"estimator": "marginal", "clusters": "per-class"}


class Pictures(Dataset):  # type: ignore[type-arg]
    """A dataset like torchvision's: samples, `classes` and `targets`."""

    def __init__(self, batches: Batches, classes: list[str]) -> None:
        self.inputs = torch.cat([x for x, _ in batches])
        self.targets = torch.cat([y for _, y in batches]).tolist()
        self.classes = classes

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.inputs[index], self.targets[index]


def together(batches: Batches) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])


@pytest.mark.parametrize("kind", ["dataset", "tensors", "arrays", "one-hot"])
def test_a_dataset_or_a_pair_serves_as_well_as_a_loader(kind: str, linear: nn.Module, batches: Batches) -> None:
    inputs, labels = together(batches)
    given: Any = {
        "dataset": TensorDataset(inputs, labels),
        "tensors": (inputs, labels),
        "arrays": (inputs.numpy(), labels.numpy()),
        "one-hot": [(x, nn.functional.one_hot(y, 4).float()) for x, y in batches],
    }[kind]
    expected = align(linear, batches, counts=COUNTS, **OPTIONS).shifts_
    found = align(linear, given, counts=COUNTS, **OPTIONS).shifts_
    np.testing.assert_allclose(found.values, expected.values, atol=1e-5)


def test_two_batches_of_inputs_in_a_tuple_are_batches(linear: nn.Module, batches: Batches) -> None:
    first, second = batches[0][0], batches[1][0]
    assert align(linear, (first, second), **OPTIONS).shifts_.n_samples == len(first) + len(second)


def test_the_dataset_names_the_classes_and_counts_are_matched_by_name(linear: nn.Module, batches: Batches) -> None:
    loader = DataLoader(Pictures(batches, ["ant", "bee", "cow", "dog"]), batch_size=16)
    by_name = {"dog": 4, "cow": 10, "bee": 40, "ant": 100}
    shifts = align(linear, loader, counts=Counter(by_name), **OPTIONS).shifts_
    assert shifts.class_names == ("ant", "bee", "cow", "dog")
    assert shifts.counts.tolist() == COUNTS


def test_a_dataset_counts_its_targets(linear: nn.Module, batches: Batches) -> None:
    training = Pictures(batches, ["dog", "ant", "cow", "bee"])
    seen = np.bincount(training.targets, minlength=4)
    assert align(linear, batches, counts=training, **OPTIONS).shifts_.counts.tolist() == seen.tolist()
    names = ["ant", "bee", "cow", "dog"]
    turned = align(linear, batches, counts=training, class_names=names, **OPTIONS).shifts_
    assert turned.counts.tolist() == seen[[1, 3, 2, 0]].tolist()
    with pytest.raises(
        EnergyAlignError, match=r"\[dog, ant, cow, bee\].*\[ant, bee, cow, owl\]: missing owl; unknown dog"
    ):
        align(linear, batches, counts=training, class_names=["ant", "bee", "cow", "owl"], **OPTIONS)


def test_swapped_arguments(linear: nn.Module, batches: Batches) -> None:
    with pytest.raises(EnergyAlignError, match=r"the first argument must be a torch\.nn\.Module, got a list"):
        align(batches, linear)


def test_a_network_that_returns_probabilities(linear: nn.Module, batches: Batches) -> None:
    with pytest.raises(EnergyAlignError, match=r"must return logits, got probabilities .* remove its softmax"):
        align(nn.Sequential(linear, nn.Softmax(dim=1)), batches, counts=COUNTS)


def test_the_callbacks_take_the_same(linear: nn.Module, batches: Batches) -> None:
    by_number = dict(reversed(list(enumerate(COUNTS))))
    given = together(batches)
    callback = AfterTraining(given, evidence="training", counts=by_number, **OPTIONS)
    assert callback.align_or_warn(linear, None, None, LabelCounter)
    assert callback.shifts_.counts.tolist() == COUNTS
