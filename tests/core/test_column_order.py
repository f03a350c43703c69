"""Permuted columns are detected; correct columns of weak or biased models are not reported."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign.core.column_order import chance_accuracy, doubt_column_order, find_order, is_near_chance
from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts


def problem(counts: list[int], signal: float, seed: int = 0, bias: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw logits that depend on the label with strength `signal`, biased towards frequent classes."""
    labels = np.repeat(np.arange(len(counts)), counts)
    noise = np.random.default_rng(seed).normal(size=(len(labels), len(counts)))
    return noise + signal * np.eye(len(counts))[labels] + bias * np.log(counts), labels


def said(logits: np.ndarray, labels: np.ndarray) -> str | None:
    return doubt_column_order(Evidence.from_arrays(logits, labels))


def test_chance_by_hand() -> None:
    assert chance_accuracy(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2])) == pytest.approx(0.75 * 0.5 + 0.25 * 0.25)


@pytest.mark.parametrize(
    ("counts", "signal", "bias"),
    [([40] * 3, 3.0, 0.0), ([40] * 10, 3.0, 0.0), ([600, 120, 48], 3.0, 1.0), ([12, 300, 60], 3.0, 1.0),
     ([500, 25], 3.0, 1.0), ([20] * 100, 3.5, 0.0)],
    ids=["3", "10", "imbalanced", "largest in the middle", "two, imbalanced", "100"],
)  # fmt: skip
def test_reversed_columns_are_found(counts: list[int], signal: float, bias: float) -> None:
    logits, labels = problem(counts, signal, bias=bias)
    n = len(counts)
    turned = logits[:, ::-1]
    order = find_order(labels, turned.argmax(axis=1), n)
    assert order is not None
    assert order.classes.tolist() == list(range(n))[::-1]
    assert order.accuracy == pytest.approx(np.mean(logits.argmax(axis=1) == labels))
    assert "may be in another order than the labels. In the order [" in (said(turned, labels) or "")
    assert find_order(labels, logits.argmax(axis=1), n) is None
    assert said(logits, labels) is None


def test_two_columns_of_ten_that_are_swapped() -> None:
    logits, labels = problem([60] * 10, 3.0)
    order = [0, 1, 5, 3, 4, 2, 6, 7, 8, 9]
    found = find_order(labels, logits[:, order].argmax(axis=1), 10)
    assert found is not None
    assert found.classes.tolist() == order


def test_the_message_names_accuracy_chance_and_order() -> None:
    logits, labels = problem([50, 50, 50], 6.0)
    evidence = Evidence.from_arrays(logits[:, [2, 0, 1]], labels, class_names=["ant", "bee", "cow"], kind="held-out")
    with pytest.warns(
        UntrustedEstimateWarning, match=r"right on 0\.0% of .*chance: 33\.3%.*\[cow, ant, bee\]"
    ) as caught:
        shifts = fit_shifts(evidence, estimator="none")
    assert str(caught[0].message) == shifts.concerns[0]


def test_too_few_samples_to_name_an_order_are_enough_to_be_below_chance() -> None:
    logits, labels = problem([300, 60, 12], 3.0, bias=1.0)
    assert find_order(labels, logits[:, ::-1].argmax(axis=1), 3) is None
    assert "may be in another order than the labels, or" in (said(logits[:, ::-1], labels) or "")
    assert said(logits, labels) is None


def test_labels_of_other_samples_are_near_chance_in_every_order() -> None:
    logits, labels = problem([200] * 5, 3.0)
    shuffled = np.random.default_rng(1).permutation(labels)
    assert find_order(shuffled, logits.argmax(axis=1), 5) is None
    assert is_near_chance(shuffled, logits.argmax(axis=1), 5)
    assert "or the labels may belong to other samples. Check both" in (said(logits, shuffled) or "")


@pytest.mark.parametrize("counts", [[20, 20, 20], [8] * 4, [100] * 3, [500, 20], [300, 60, 12], [3] * 20], ids=str)
@pytest.mark.parametrize("signal", [0.3, 0.6])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_honest_weak_models_are_hardly_ever_accused(counts: list[int], signal: float, bias: float) -> None:
    accused = sum(said(*problem(counts, signal, seed, bias)) is not None for seed in range(50))
    assert accused <= 1


def test_models_that_know_nothing_of_few_samples_are_not_accused() -> None:
    accused = sum(said(*problem([10, 10, 10], 0.0, seed)) is not None for seed in range(100))
    assert accused <= 1


def test_a_model_that_always_predicts_the_largest_class_is_not_accused() -> None:
    labels = np.repeat([0, 1], [9900, 100])
    logits = np.tile([1.0, -1.0], (10_000, 1))
    assert said(logits, labels) is None
    assert "right on 1.0% of" in (said(logits[:, ::-1], labels) or "")


def test_many_samples_whose_classes_come_in_turn_are_drawn_from_all_classes() -> None:
    labels = np.arange(40_000) % 4  # every fourth would be of one class
    logits = 3 * np.eye(4)[labels] + np.random.default_rng(0).normal(size=(40_000, 4))
    assert said(logits, labels) is None
    assert "[3, 2, 1, 0]" in (said(logits[:, ::-1], labels) or "")


def test_without_labels_there_is_nothing_to_say() -> None:
    assert doubt_column_order(Evidence.from_arrays(np.zeros((9, 2)))) is None


def test_a_class_that_is_given_up_for_another_is_not_mixed_up_with_it() -> None:
    """As after a step of incremental learning: nearly all samples of old class 0 are predicted as new class 3."""
    truth = np.repeat(np.arange(4), 50)
    predicted = truth.copy()
    predicted[:48] = 3
    predicted[150:170] = 2  # and some of class 3 for class 2
    assert find_order(truth, predicted, 4) is None


def test_labels_of_other_samples_are_mostly_noticed() -> None:
    """1,500 shuffled samples of a model with an accuracy of 85 %."""
    noticed = 0
    for seed in range(20):
        logits, labels = problem([1050, 330, 120], 2.5, seed, 1.0)
        noticed += said(logits, np.random.default_rng(seed).permutation(labels)) is not None
    assert noticed >= 14
