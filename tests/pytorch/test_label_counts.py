"""Training counts from the labels of batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from energyalign.pytorch.label_counts import LabelCounter


def counted(*labels: Any, n_classes: int = 3) -> list[int] | None:
    counter = LabelCounter()
    for part in labels:
        counter.add(part)
    found = counter.counts(n_classes)
    return None if found is None else found.tolist()


def test_counts_add_up_over_batches_of_every_form() -> None:
    counter = LabelCounter()
    counter.add_batch((torch.zeros(3, 2), torch.tensor([0, 0, 1])))
    counter.add_batch({"x": torch.zeros(2, 2), "labels": torch.tensor([2, 0])})
    found = counter.counts(3)
    assert found is not None
    assert found.tolist() == [3, 1, 1]


def test_a_later_batch_may_have_fewer_classes() -> None:
    assert counted([2, 2], [0, 1], [0]) == [2, 1, 2]


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param([torch.tensor([0.3, 0.7])], id="soft labels"),
        pytest.param([torch.eye(3, dtype=torch.long)], id="one-hot rows"),
        pytest.param([torch.tensor(2)], id="a single number"),
        pytest.param([["cat", "dog"]], id="names"),
        pytest.param([[[0], [1, 2]]], id="ragged"),
        pytest.param([[0, 1, 2, 2**40]], id="numbers that are no classes"),
        pytest.param([None], id="none"),
        pytest.param([[0, 1, -100]], id="ignored"),
        pytest.param([[0, 1]], id="a class unseen"),
        pytest.param([[0, 1, 2, 3]], id="more classes than the model has"),
        pytest.param([], id="nothing"),
        pytest.param([[0, 1, 2], None, [0, 1, 2]], id="lost on the way"),
    ],
)
def test_what_cannot_be_counted_is_unknown(labels: list[Any]) -> None:
    assert counted(*labels) is None


def test_a_batch_that_is_not_understood_makes_it_unknown() -> None:
    counter = LabelCounter()
    counter.add([0, 1, 2])
    counter.add_batch((1, 2, 3))
    assert counter.counts(3) is None


def test_tokens_and_pixels_are_counted_without_what_is_ignored() -> None:
    assert counted(torch.tensor([[0, 1, 2], [2, -100, 0]]), torch.tensor([[[1, 1], [0, -100]]])) == [3, 3, 2]


def test_sides_as_floats() -> None:
    assert counted(torch.tensor([[0.0], [1.0], [1.0]]), n_classes=2) == [1, 2]


def test_independent_labels_are_counted_without_and_with() -> None:
    counter = LabelCounter(multilabel=True)
    counter.add(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    counter.add(torch.tensor([[1, 1], [-100, 1]]))
    found = counter.counts(2)
    assert found is not None
    assert found.tolist() == [[1, 2], [2, 2]]
    counter.add(torch.tensor([[0, 2]]))
    assert counter.counts(2) is None


def test_a_column_of_labels_is_counted() -> None:
    assert counted(torch.tensor([[0], [1], [2], [2]])) == [1, 1, 2]


class Untouchable:
    """Inputs that must not be read: they may be large and on a GPU."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the counter asked the inputs for {name}")


def test_only_the_labels_are_looked_at() -> None:
    counter = LabelCounter()
    counter.add_batch((Untouchable(), torch.tensor([0, 1])))
    counter.add_batch({"x": Untouchable(), "labels": torch.tensor([0, 1])})
    assert counter.seen == {0: 2, 1: 2}
