"""Cross-fitted scores: shifts are scored on samples that they were not fitted on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyalign.core.clusters import Clusters
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.selection.scoring import N_FOLDS, assign_folds, cross_fitted

UNIFORM = np.full(4, 0.25)


def right(logits: np.ndarray, labels: np.ndarray, shifts: np.ndarray | float = 0.0) -> np.ndarray:
    return np.argmax(logits + shifts, axis=1) == labels


def raw_score(evidence: Evidence, target: np.ndarray) -> float:
    fitted = cross_fitted(evidence, lambda _: np.zeros((1, len(target))), target)
    return fitted.score(fitted.right_by_option()[0])


def best_of_random_shifts(evidence: Evidence) -> np.ndarray:
    """Return the random shifts with the best score on these samples: overfitting on purpose."""
    logits = np.concatenate([block.logits for block in evidence.blocks()])
    labels = np.concatenate([block.labels for block in evidence.blocks()])
    shifts = np.random.default_rng(0).normal(size=(300, evidence.n_classes))
    return max(shifts, key=lambda shift: right(logits, labels, shift).mean())[None]


class TestCrossFitting:
    def test_is_not_fooled_by_a_fit_to_its_own_samples(self) -> None:
        # Labels are independent of the logits: no shifts can be right more often than one time in four.
        rng = np.random.default_rng(0)
        logits, labels = rng.normal(size=(40, 4)), np.arange(40) % 4
        evidence = Evidence.from_arrays(logits, labels)
        assert right(logits, labels, best_of_random_shifts(evidence)[0]).mean() > 0.38
        fitted = cross_fitted(evidence, best_of_random_shifts, UNIFORM)
        assert fitted.score(fitted.right_by_option()[0]) < 0.32

    @pytest.mark.parametrize("estimator", ["lse", "marginal", "shrunk", "prior"])
    def test_predicts_the_accuracy_on_fresh_data(self, simulate: Callable[..., Any], estimator: str) -> None:
        counts = [300, 100, 30, 10]
        logits, labels = simulate(counts, 250, seed=1, separation=2.0)
        evidence = Evidence.from_arrays(logits, labels, counts=counts, kind="held-out")

        def fit(part: Evidence) -> np.ndarray:
            return make_estimator(estimator).estimate(part, Clusters.per_class(4)).shifts[None]

        fitted = cross_fitted(evidence, fit, UNIFORM)
        fresh_logits, fresh_labels = simulate(counts, 5000, seed=2, separation=2.0)
        expected = right(fresh_logits, fresh_labels, fit(evidence)[0]).mean()
        # 1,000 scored samples: standard error 0.014.
        assert fitted.score(fitted.right_by_option()[0]) == pytest.approx(expected, abs=0.03)

    def test_every_sample_is_scored_by_the_shifts_of_the_other_folds(self) -> None:
        rng = np.random.default_rng(3)
        logits, labels = rng.normal(size=(60, 4)), np.arange(60) % 4
        evidence = Evidence.from_arrays(logits, labels)
        folds = assign_folds(evidence, labels)
        seen: list[np.ndarray] = []

        def fit(part: Evidence) -> np.ndarray:
            assert part.keep is not None
            seen.append(part.keep)
            return np.random.default_rng(len(seen)).normal(size=(2, 4))

        fitted = cross_fitted(evidence, fit, UNIFORM)
        assert [keep.tolist() for keep in seen] == [(folds != fold).tolist() for fold in range(N_FOLDS)]
        for option, marks in enumerate(fitted.right_by_option()):
            for fold in range(N_FOLDS):
                shifts = np.random.default_rng(fold + 1).normal(size=(2, 4))[option]
                own = folds == fold
                np.testing.assert_array_equal(marks[own], right(logits[own], labels[own], shifts))

    def test_the_raw_model_by_hand(self) -> None:
        # Class 0: 3 of 4 right; class 1: 1 of 2 right. The single sample of class 2 is never scored.
        logits = np.eye(3)[[0, 0, 0, 1, 1, 0, 2]]
        labels = np.array([0, 0, 0, 0, 1, 1, 2])
        assert raw_score(Evidence.from_arrays(logits, labels), np.full(3, 1 / 3)) == pytest.approx((3 / 4 + 1 / 2) / 2)

    def test_classes_count_by_the_target_prior(self) -> None:
        logits = np.array([[0.0, 0.0]] * 8)
        logits[:4, 0], logits[4:, 1] = 9.0, [9.0, 9.0, -9.0, -9.0]  # class 0 all right, class 1 half
        evidence = Evidence.from_arrays(logits, [0] * 4 + [1] * 4)
        assert raw_score(evidence, np.array([0.9, 0.1])) == pytest.approx(0.9 * 1 + 0.1 * 0.5)

    def test_the_target_also_moves_the_predictions(self) -> None:
        # Undecided logits: with a target prior of 0.9 for class 0, it is always predicted.
        evidence = Evidence.from_arrays(np.array([[0.0, 1.5]] * 8), [0, 1] * 4)
        assert raw_score(evidence, np.array([0.9, 0.1])) == pytest.approx(0.9)

    def test_repeats_count_in_the_score(self) -> None:
        logits = np.array([[1.0, 0], [0, 1.0], [0, 1.0], [0, 1.0]])
        evidence = Evidence.from_arrays(logits, [0, 0, 1, 1], repeats=[3, 1, 1, 1])
        assert raw_score(evidence, np.array([0.5, 0.5])) == pytest.approx((3 / 4 + 1) / 2)

    def test_samples_that_do_not_count_are_not_scored(self) -> None:
        rng = np.random.default_rng(5)
        logits, labels = rng.normal(size=(80, 4)), np.arange(80) % 4
        keep = np.arange(80) % 3 > 0
        part = raw_score(Evidence.from_arrays(logits, labels).subset(keep), UNIFORM)
        assert part == pytest.approx(raw_score(Evidence.from_arrays(logits[keep], labels[keep]), UNIFORM))


class TestFolds:
    @staticmethod
    def folds(labels: np.ndarray, **options: Any) -> np.ndarray:
        return assign_folds(Evidence.from_arrays(np.zeros((len(labels), 4)), labels, **options), labels)

    def test_every_class_is_dealt_out_evenly(self) -> None:
        labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [100, 23, 7, 2]))
        folds = self.folds(labels)
        for label, n in enumerate([100, 23, 7, 2]):
            sizes = np.bincount(folds[labels == label], minlength=N_FOLDS)
            assert sizes.sum() == n
            assert np.ptp(sizes) <= 1

    def test_a_single_sample_is_fitted_and_never_scored(self) -> None:
        folds = self.folds(np.array([0, 0, 0, 1, 2, 2, 3, 3]))
        assert folds[3] == -1
        assert np.all(np.delete(folds, 3) >= 0)

    @pytest.mark.parametrize("n_groups", [2, 5, 7, 23])
    def test_groups_stay_together(self, n_groups: int) -> None:
        rng = np.random.default_rng(1)
        labels, groups = np.arange(200) % 4, rng.integers(0, n_groups, size=200)
        folds = self.folds(labels, groups=groups)
        for group in range(n_groups):
            assert len(set(folds[groups == group])) == 1
        assert 1 < len(set(folds)) <= 10

    def test_a_class_of_one_group_is_fitted_and_never_scored(self) -> None:
        labels = np.array([0, 0, 1, 1, 2, 2])
        folds = self.folds(labels, groups=[0, 1, 0, 1, 2, 2])
        assert folds[4:].tolist() == [-1, -1]
        assert np.all(folds[:4] >= 0)

    def test_samples_that_are_not_kept_are_in_no_fold(self) -> None:
        labels = np.arange(40) % 4
        evidence = Evidence.from_arrays(np.zeros((40, 4)), labels).subset(np.arange(40) < 20)
        folds = assign_folds(evidence, labels)
        assert np.all(folds[20:] == -1)
        assert np.all(folds[:20] >= 0)
