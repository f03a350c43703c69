"""Metrics of predictions: by hand, and compared with scikit-learn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given
from hypothesis import strategies as st

from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import ClassScores, balanced_standard_error, confusion_matrix, shot_groups

# Predictions 0, 0, 1, 2, 2, 2; second choices 1, 1, 2, 0, 1, 0.
LOGITS = np.array([[3.0, 2, 1], [3, 2, 1], [1, 3, 2], [2, 1, 3], [1, 2, 3], [2, 1, 3]])
LABELS = np.array([0, 0, 0, 0, 1, 2])


class TestByHand:
    scores = ClassScores(3, top_k=2).update(LOGITS, LABELS)

    def test_per_class(self) -> None:
        assert self.scores.per_class.tolist() == [0.5, 0.0, 1.0]
        assert self.scores.total.tolist() == [4, 1, 1]

    def test_overall_and_balanced(self) -> None:
        assert self.scores.accuracy == 0.5
        assert self.scores.balanced_accuracy == 0.5
        assert ClassScores(2).update(LOGITS[:4, :2], [0, 0, 0, 1]).balanced_accuracy == pytest.approx((2 / 3 + 0) / 2)

    def test_top_k(self) -> None:
        # Correct among the first two choices: class 0 except the third sample; class 1 by second choice; class 2 by
        # first.
        assert self.scores.right_top_k.tolist() == [3, 1, 1]
        assert self.scores.top_k_accuracy == pytest.approx(5 / 6)
        assert self.scores.balanced_top_k_accuracy == pytest.approx((3 / 4 + 1 + 1) / 3)

    def test_k_is_clipped_to_the_number_of_classes(self) -> None:
        scores = ClassScores(3, top_k=50).update(LOGITS, LABELS)
        assert scores.top_k == 3
        assert scores.top_k_accuracy == 1.0

    def test_of_equal_logits_the_smaller_number_comes_first(self) -> None:
        scores = ClassScores(4, top_k=2).update(np.zeros((4, 4)), [0, 1, 2, 3])
        assert scores.right.tolist() == [1, 0, 0, 0]
        assert scores.right_top_k.tolist() == [1, 1, 0, 0]
        partly = ClassScores(3, top_k=2).update(np.array([[1.0, 5.0, 1.0]] * 3), [0, 1, 2])
        assert partly.right_top_k.tolist() == [1, 1, 0]

    def test_masked_classes_come_last(self) -> None:
        scores = ClassScores(3, top_k=2).update(np.array([[-np.inf, 1.0, 0.0]] * 2), [0, 2])
        assert scores.right_top_k.tolist() == [0, 0, 1]

    def test_a_class_without_samples_counts_nowhere(self) -> None:
        scores = ClassScores(3).update(LOGITS[:4], [0, 0, 0, 2])
        assert np.isnan(scores.per_class[1])
        assert scores.balanced_accuracy == pytest.approx((2 / 3 + 1) / 2)

    def test_nothing_at_all_is_not_a_number(self) -> None:
        scores = ClassScores(3)
        assert np.isnan([scores.accuracy, scores.top_k_accuracy, scores.balanced_accuracy]).all()


class TestShotGroups:
    def test_the_boundaries(self) -> None:
        groups = shot_groups([101, 100, 20, 19, 5000, 1], 6)
        assert np.flatnonzero(groups["many"]).tolist() == [0, 4]
        assert np.flatnonzero(groups["medium"]).tolist() == [1, 2]
        assert np.flatnonzero(groups["few"]).tolist() == [3, 5]

    def test_groups_are_averaged_over_classes(self) -> None:
        scores = ClassScores(4).update(np.eye(4)[[0, 0, 0, 0, 1, 2, 3]], [0, 0, 0, 1, 1, 2, 2])
        # Accuracies 1, 1/2, 1/2 and NaN: class 3 has no samples.
        assert scores.groups([200, 150, 50, 10]) == {
            "many": pytest.approx(0.75), "medium": pytest.approx(0.5), "few": pytest.approx(np.nan, nan_ok=True),
        }  # fmt: skip

    def test_wrong_counts_are_refused(self) -> None:
        with pytest.raises(EnergyAlignError, match="must be positive; wrong for class 2"):
            ClassScores(3).groups([1, 2, 0])


class TestAgainstScikitLearn:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(500, 7)), rng.integers(0, 7, size=500)

    def test_accuracies(self) -> None:
        scores = ClassScores(7, top_k=3).update(self.logits, self.labels)
        predicted = self.logits.argmax(1)
        assert scores.accuracy == pytest.approx(sklearn.metrics.accuracy_score(self.labels, predicted))
        assert scores.balanced_accuracy == pytest.approx(
            sklearn.metrics.balanced_accuracy_score(self.labels, predicted)
        )
        assert scores.top_k_accuracy == pytest.approx(
            sklearn.metrics.top_k_accuracy_score(self.labels, self.logits, k=3)
        )
        np.testing.assert_allclose(
            scores.per_class, sklearn.metrics.recall_score(self.labels, predicted, average=None), rtol=1e-14
        )

    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
    def test_confusion_matrix(self, pairs: list[tuple[int, int]]) -> None:
        labels, predictions = (np.array(column) for column in zip(*pairs, strict=True))
        expected = sklearn.metrics.confusion_matrix(labels, predictions, labels=range(5))
        np.testing.assert_array_equal(confusion_matrix(labels, predictions, 5), expected)


class TestStreaming:
    logits = np.random.default_rng(1).normal(size=(40, 4))
    labels = np.arange(40) % 4

    @given(st.lists(st.integers(0, 40), max_size=4))
    def test_blocks_and_merges_are_one_update(self, cuts: list[int]) -> None:
        whole = ClassScores(4, top_k=2).update(self.logits, self.labels)
        in_turn, merged = ClassScores(4, top_k=2), ClassScores(4, top_k=2)
        edges = [0, *sorted(cuts), 40]
        for start, stop in pairwise(edges):
            block = self.logits[start:stop], self.labels[start:stop]
            in_turn.update(*block)
            merged = ClassScores(4, top_k=2).update(*block).merge(merged)
        for other in (in_turn, merged):
            for name in ("right", "right_top_k", "total"):
                np.testing.assert_array_equal(getattr(other, name), getattr(whole, name))

    @pytest.mark.parametrize("other", [ClassScores(5), ClassScores(4, top_k=2)])
    def test_scores_of_another_kind_are_not_merged(self, other: ClassScores) -> None:
        with pytest.raises(EnergyAlignError, match="cannot merge scores"):
            ClassScores(4).merge(other)

    @pytest.mark.parametrize(
        "make", [torch.tensor, array_api_strict.asarray, lambda a: torch.tensor(a).to(torch.bfloat16)]
    )
    def test_other_namespaces(self, make: Any) -> None:
        # Distinct even in bfloat16.
        logits = np.random.default_rng(2).permuted(np.tile(np.arange(4.0), (40, 1)), axis=1)
        scores = ClassScores(4, top_k=2).update(
            make(logits), make(self.labels) if make is torch.tensor else self.labels
        )
        expected = ClassScores(4, top_k=2).update(logits, self.labels)
        assert scores.right.tolist() == expected.right.tolist()
        assert scores.right_top_k.tolist() == expected.right_top_k.tolist()


class TestRefusals:
    @pytest.mark.parametrize(
        ("logits", "labels", "message"),
        [
            (np.array([[0.0, np.nan, 0.0]]), [0], "NaN at sample 0, class 1"),
            (np.zeros((1, 4)), [0], "4 class columns, but 3 were expected"),
            (np.zeros((2, 3)), [0], r"labels must have shape \(2,\)"),
            (np.zeros((1, 3)), [3], "label 3 of sample 0 is out of range"),
            (np.zeros((1, 3), dtype=int), [0], "floating point"),
            (np.zeros((1, 3)), [0.5], "class numbers"),
        ],
    )
    def test_bad_blocks_leave_the_scores_as_they_were(self, logits: Any, labels: Any, message: str) -> None:
        scores = ClassScores(3).update(LOGITS, LABELS)
        with pytest.raises(EnergyAlignError, match=message):
            scores.update(logits, labels)
        assert scores.total.tolist() == [4, 1, 1]
        assert scores.accuracy == 0.5

    def test_top_k_of_nothing(self) -> None:
        with pytest.raises(EnergyAlignError, match="top_k must be >= 1, got 0"):
            ClassScores(3, top_k=0)

    def test_confusion_of_unequal_lengths_or_classes(self) -> None:
        with pytest.raises(EnergyAlignError, match="must have shape"):
            confusion_matrix([0, 1], [0], 2)
        with pytest.raises(EnergyAlignError, match="label 2 of sample 1 is out of range"):
            confusion_matrix([0, 1], [0, 2], 2)


def test_standard_error_by_hand() -> None:
    # (0.25 / 100 + 0.16 / 40) ** 0.5 / 2; the class without samples is left out.
    assert balanced_standard_error([0.5, 0.2, 0.0], [100, 40, 0]) == pytest.approx(0.0065**0.5 / 2)


def test_standard_error_is_the_spread_over_test_sets() -> None:
    random = np.random.default_rng(0)
    truth, totals = np.array([0.9, 0.6, 0.3]), np.array([200, 50, 30])
    shares = random.binomial(totals, truth, size=(4000, 3)) / totals
    spread = shares.mean(axis=1).std()
    assert np.mean([balanced_standard_error(each, totals) for each in shares]) == pytest.approx(spread, rel=0.05)
