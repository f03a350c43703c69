"""The default choice of unseen samples: out of bag, held out, or fold by fold."""

from __future__ import annotations

from typing import Any, ClassVar, Self
from unittest import mock

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

from energyalign import EnergyAlignedClassifier
from energyalign.core.probabilities import log_probabilities
from energyalign.sklearn import unseen
from energyalign.sklearn.training import Training
from energyalign.sklearn.unseen import score_unseen

Problem = tuple[np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small forests: thirty trees take a tenth of the time of three hundred."""
    monkeypatch.setattr(unseen, "MIN_BAGS", 30)


FORESTS = {
    "forest": RandomForestClassifier(30, random_state=0),
    "extra trees": ExtraTreesClassifier(30, bootstrap=True, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(max_depth=4), 30, random_state=0),
}


@pytest.mark.parametrize("base", FORESTS.values(), ids=FORESTS.keys())
def test_forests_are_scored_out_of_bag_as_scikit_learn_does(base: Any, long_tail: Problem) -> None:
    found = score_unseen(Training(base, *long_tail), "auto")
    alone = type(base)(**{**base.get_params(deep=False), "oob_score": True}).fit(*long_tail)
    np.testing.assert_array_equal(found.rows, np.arange(500))
    np.testing.assert_array_equal(found.logits, log_probabilities(alone.oob_decision_function_))
    assert found.groups is None
    X, _ = long_tail
    np.testing.assert_array_equal(found.estimator.predict_proba(X), alone.predict_proba(X))


def test_a_forest_keeps_what_the_user_set(long_tail: Problem) -> None:
    forest = RandomForestClassifier(30, random_state=0)
    plain = score_unseen(Training(forest, *long_tail), "auto").estimator
    assert plain.oob_score is False
    assert not hasattr(plain, "oob_score_")
    assert not hasattr(plain, "oob_decision_function_")
    forest.set_params(oob_score=True)
    assert hasattr(score_unseen(Training(forest, *long_tail), "auto").estimator, "oob_decision_function_")


class Bag(ClassifierMixin, BaseEstimator):
    """Behaves like a forest, and records the number of rows of each fit."""

    fits: ClassVar[list[int]] = []

    def __init__(
        self, n_estimators: int = 30, bootstrap: bool = True, oob_score: bool = False, warm_start: bool = False
    ) -> None:
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.warm_start = warm_start

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.fits.append(len(X))
        self.classes_ = np.unique(y)
        if self.oob_score:
            self.oob_score_, self.oob_decision_function_ = 0.0, self.predict_proba(X)
            self.oob_decision_function_[3] = 0.0  # in every bag: a forest returns 0, bagging NaN
            self.oob_decision_function_[5] = np.nan
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        scores = np.exp(np.sin(np.outer(X[:, 0], np.arange(1, len(self.classes_) + 1))))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(Bag, "fits", [])
    return Bag.fits


def test_samples_in_every_bag_and_the_only_one_of_a_class_are_left_out(blobs: Any, fits: list[int]) -> None:
    X, y = blobs([30, 12, 1])
    found = score_unseen(Training(Bag(), X, y), "auto")
    alone = np.flatnonzero(y == 2)
    np.testing.assert_array_equal(found.rows, np.setdiff1d(np.arange(43), [3, 5, *alone]))
    assert np.all(np.isfinite(found.logits))
    assert fits == [43]


@pytest.mark.parametrize(
    "options", [{"bootstrap": False}, {"warm_start": True}, {"n_estimators": 29}], ids=["bootstrap", "warm", "few"]
)
def test_forests_without_usable_scores_out_of_bag_are_fitted_again(
    options: dict[str, Any], long_tail: Problem, fits: list[int]
) -> None:
    score_unseen(Training(Bag(**options), *long_tail), "auto")
    assert len(fits) > 1


def test_bags_of_independent_labels_are_fitted_again(blobs: Any) -> None:
    X, y = blobs([60, 40, 20])
    labels = np.column_stack([y > 0, y != 1]).astype(int)
    found = score_unseen(Training(RandomForestClassifier(30, random_state=0), X, labels), "auto")
    assert found.logits.shape[1] == 2


def test_what_has_a_decision_function_is_aligned_by_it(long_tail: Problem) -> None:
    """Out-of-bag scores are probabilities, which are not used."""
    base = BaggingClassifier(RidgeClassifier(), 30, random_state=0)
    found = score_unseen(Training(base, *long_tail), "auto")
    assert np.any(found.logits > 0)


@pytest.mark.parametrize(
    ("counts", "fitted_on"),
    [([400, 101, 99], [600, 400, 400, 400]), ([400, 102, 100], [602, 301, 301]), ([402, 303, 300], [1005, 670])],
    ids=["three folds", "two folds", "a third held out"],
)
def test_the_rarest_class_decides_how_many_fits_there_are(
    counts: list[int], fitted_on: list[int], blobs: Any, fits: list[int]
) -> None:
    X, y = blobs(counts)
    found = score_unseen(Training(Bag(bootstrap=False), X, y), "auto")
    assert fits[0] == fitted_on[0]
    assert sorted(fits[1:]) == sorted(fitted_on[1:])
    assert len(found.rows) == sum(len(y) - n for n in fits[1:])
    shares = np.bincount(y[found.rows]) / counts
    np.testing.assert_allclose(shares, shares.mean(), atol=0.01)  # every class, as all others


def test_samples_of_weight_zero_do_not_count(blobs: Any) -> None:
    X, y = blobs([200, 105])
    weights = np.ones(305)
    for n_fits in (2, 3):
        with mock.patch.object(Training, "fit_and_score", autospec=True, side_effect=Training.fit_and_score) as fits:
            score_unseen(Training(LogisticRegression(), X, y, weights), "auto")
        assert fits.call_count == n_fits
        weights[np.flatnonzero(y == 1)[:10]] = 0.0


@pytest.mark.parametrize(("counts", "n_fits"), [([120, 30], 4), ([400, 300], 3)])
def test_bags_and_a_held_out_part_do_not_keep_groups_together(
    counts: list[int], n_fits: int, blobs: Any, fits: list[int]
) -> None:
    X, y = blobs(counts)
    groups = np.arange(len(y)) // 5
    found = score_unseen(Training(Bag(), X, y, groups=groups), "auto")
    assert len(fits) == n_fits
    np.testing.assert_array_equal(found.groups, groups)
    np.testing.assert_array_equal(found.rows, np.arange(len(y)))


@pytest.mark.parametrize("cv", [5, 3])
def test_folds_that_were_asked_for_are_made_of_forests_too(cv: int, long_tail: Problem, fits: list[int]) -> None:
    found = score_unseen(Training(Bag(), *long_tail), cv)
    assert fits == [500] + [500 - 500 // cv - (fold < 500 % cv) for fold in range(cv)]
    np.testing.assert_array_equal(found.rows, np.arange(500))
    assert found.groups is None if cv < 5 else len(np.unique(found.groups)) == cv


def test_two_processes_find_the_same(long_tail: Problem) -> None:
    X, y = long_tail
    one, two = (EnergyAlignedClassifier(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(two.shifts_.values, one.shifts_.values)
    np.testing.assert_array_equal(two.estimator_.coef_, one.estimator_.coef_)


def test_a_fit_is_the_same_every_time(long_tail: Problem) -> None:
    X, y = long_tail
    np.random.seed(1)  # noqa: NPY002  # which must not matter
    one = EnergyAlignedClassifier().fit(X, y)
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(EnergyAlignedClassifier().fit(X, y).shifts_.values, one.shifts_.values)
