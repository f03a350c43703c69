"""Cross-fitted scores: every candidate judged on samples that it was not fitted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from energyalign.core.clusters import Clusters
from energyalign.core.estimators import make_estimator
from energyalign.core.estimators.base import Energies, Estimator
from energyalign.core.evidence import Evidence
from energyalign.core.selection.scoring import (
    N_FOLDS,
    Score,
    _Comparison,
    assign_folds,
    cross_fitted_scores,
    scores_every_class,
)

UNIFORM = np.full(4, 0.25)
RAW = (make_estimator("none"), Clusters.per_class(4))


def right(logits: np.ndarray, labels: np.ndarray, shifts: np.ndarray | float = 0.0) -> np.ndarray:
    return np.argmax(logits + shifts, axis=1) == labels


@dataclass(frozen=True)
class Overfitter(Estimator):
    """The best of many random shifts on its evidence: as easily fooled as can be."""

    name: ClassVar[str] = "overfitter"
    description: ClassVar[str] = "the best of random shifts"

    def energies(self, evidence: Evidence, clusters: Clusters) -> Energies:
        logits = np.concatenate([block.logits for block in evidence.blocks()])
        labels = np.concatenate([block.labels for block in evidence.blocks()])
        shifts = np.random.default_rng(0).normal(size=(300, clusters.n_clusters))
        best = max(shifts, key=lambda shift: right(logits, labels, shift).mean())
        return Energies(-best, np.zeros(len(best)), np.zeros(len(best)))


class TestCrossFitting:
    def test_is_not_fooled_by_a_fit_to_its_own_samples(self) -> None:
        # Labels that have nothing to do with the logits: no shifts can be right more often than one time in four.
        rng = np.random.default_rng(0)
        logits, labels = rng.normal(size=(40, 4)), np.arange(40) % 4
        evidence = Evidence.from_arrays(logits, labels)
        shifts = -Overfitter().energies(evidence, Clusters.per_class(4)).values
        assert right(logits, labels, shifts).mean() > 0.38
        [score] = cross_fitted_scores(evidence, [(Overfitter(), Clusters.per_class(4))], UNIFORM)
        assert score.accuracy < 0.32

    @pytest.mark.parametrize("estimator", ["lse", "marginal", "prior"])
    def test_predicts_the_accuracy_on_fresh_data(self, simulate: Callable[..., Any], estimator: str) -> None:
        counts = [300, 100, 30, 10]
        logits, labels = simulate(counts, 250, seed=1, separation=2.0)
        evidence = Evidence.from_arrays(logits, labels, counts=counts)
        [score] = cross_fitted_scores(evidence, [(make_estimator(estimator), Clusters.per_class(4))], UNIFORM)
        shifts = -make_estimator(estimator).energies(evidence, Clusters.per_class(4)).values
        fresh_logits, fresh_labels = simulate(counts, 5000, seed=2, separation=2.0)
        # 1,000 scored samples: standard error 0.014.
        assert score.accuracy == pytest.approx(right(fresh_logits, fresh_labels, shifts).mean(), abs=0.03)

    def test_the_raw_model_by_hand(self) -> None:
        # Class 0: 3 of 4 right; class 1: 1 of 2 right. The single sample of class 2 is never scored.
        logits = np.eye(3)[[0, 0, 0, 1, 1, 0, 2]]
        labels = np.array([0, 0, 0, 0, 1, 1, 2])
        raw = (make_estimator("none"), Clusters.per_class(3))
        [score] = cross_fitted_scores(Evidence.from_arrays(logits, labels), [raw], np.full(3, 1 / 3))
        assert score.accuracy == pytest.approx((3 / 4 + 1 / 2) / 2)
        assert score.behind == 0

    def test_classes_count_by_the_target_prior(self) -> None:
        logits = np.array([[0.0, 0.0]] * 8)
        logits[:4, 0], logits[4:, 1] = 9.0, [9.0, 9.0, -9.0, -9.0]  # class 0 all right, class 1 half
        evidence = Evidence.from_arrays(logits, [0] * 4 + [1] * 4)
        raw = (make_estimator("none"), Clusters.per_class(2))
        [score] = cross_fitted_scores(evidence, [raw], np.array([0.9, 0.1]))
        assert score.accuracy == pytest.approx(0.9 * 1 + 0.1 * 0.5)

    def test_the_target_also_moves_the_predictions(self) -> None:
        # Undecided logits: with a target of 0.9 class 0 is predicted everywhere.
        evidence = Evidence.from_arrays(np.array([[0.0, 1.0]] * 8), [0, 1] * 4)
        raw = (make_estimator("none"), Clusters.per_class(2))
        [score] = cross_fitted_scores(evidence, [raw], np.array([0.9, 0.1]))
        assert score.accuracy == pytest.approx(0.9)

    def test_repeats_count_in_the_score(self) -> None:
        logits = np.array([[1.0, 0], [0, 1.0], [0, 1.0], [0, 1.0]])
        evidence = Evidence.from_arrays(logits, [0, 0, 1, 1], repeats=[3, 1, 1, 1])
        raw = (make_estimator("none"), Clusters.per_class(2))
        [score] = cross_fitted_scores(evidence, [raw], np.array([0.5, 0.5]))
        assert score.accuracy == pytest.approx((3 / 4 + 1) / 2)

    def test_without_labels_there_is_no_score(self) -> None:
        assert cross_fitted_scores(Evidence.from_arrays(np.zeros((9, 4))), [RAW, RAW], UNIFORM) == [Score(), Score()]

    def test_with_one_sample_per_class_there_is_no_score(self) -> None:
        evidence = Evidence.from_arrays(np.eye(4), np.arange(4))
        assert cross_fitted_scores(evidence, [RAW], UNIFORM) == [Score()]

    def test_a_candidate_that_fails_is_out_and_says_why(self) -> None:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(40, 4)), np.arange(40) % 4)
        prior = (make_estimator("prior"), Clusters.per_class(4))  # there are no counts
        failed, raw = cross_fitted_scores(evidence, [prior, RAW], UNIFORM)
        assert failed.accuracy is None
        assert "needs the training counts" in failed.problem
        assert raw.accuracy is not None
        assert raw.problem is None


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


class TestComparison:
    def test_a_difference_is_measured_in_its_own_standard_errors(self) -> None:
        rng = np.random.default_rng(2)
        labels = np.repeat(np.arange(4), [900, 500, 300, 300])
        one, two = rng.random(2000) < 0.8, rng.random(2000) < 0.76
        target = np.array([0.4, 0.3, 0.2, 0.1])

        def difference(sample: np.ndarray) -> float:
            return sum(
                t * (one[s].mean() - two[s].mean()) for k, t in enumerate(target) for s in [sample[labels[sample] == k]]
            )

        groups = [np.flatnonzero(labels == k) for k in range(4)]
        resampled = [difference(np.concatenate([rng.choice(g, len(g)) for g in groups])) for _ in range(400)]
        expected = difference(np.arange(2000)) / np.std(resampled)
        found = _Comparison(labels, np.ones(2000), target).distance(one, two)
        assert found == pytest.approx(expected, rel=0.15)

    def test_equal_answers_and_better_ones_are_not_behind(self) -> None:
        comparison = _Comparison(np.array([0, 0, 1, 1]), np.ones(4), np.array([0.5, 0.5]))
        some, all_right = np.array([True, False, True, False]), np.ones(4, dtype=bool)
        assert comparison.distance(some, some) == 0
        assert comparison.distance(some, all_right) == 0
        assert comparison.distance(all_right, some) > 0

    def test_a_clear_difference_is_far_and_a_chance_difference_is_near(self) -> None:
        labels = np.repeat([0, 1], 200)
        comparison = _Comparison(labels, np.ones(400), np.array([0.5, 0.5]))
        best = np.ones(400, dtype=bool)
        one_off, half_off = best.copy(), best.copy()
        one_off[0] = False
        half_off[::2] = False
        assert comparison.distance(best, one_off) <= 1.01
        assert comparison.distance(best, half_off) > 10


def test_scores_are_fair_only_if_every_class_in_play_is_scored() -> None:
    logits = np.zeros((6, 3))
    assert scores_every_class(Evidence.from_arrays(logits, [0, 0, 1, 1, 2, 2]))
    assert not scores_every_class(Evidence.from_arrays(logits, [0, 0, 0, 1, 1, 2]))
    assert not scores_every_class(Evidence.from_arrays(logits))
    logits[:, 2] = -np.inf  # out of play
    assert scores_every_class(Evidence.from_arrays(logits, [0, 0, 0, 1, 1, 1]))
