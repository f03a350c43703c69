"""A sample weight is the number of times that a sample was observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError

Problem = tuple[np.ndarray, np.ndarray]


@pytest.mark.parametrize("evidence", ["out-of-fold", "training"])
@pytest.mark.parametrize("estimator", ["lse", "marginal", "shrunk", "prior", "auto"])
@pytest.mark.parametrize("base", [LogisticRegression(tol=1e-10, max_iter=1000), GaussianNB()], ids=["linear", "bayes"])
@pytest.mark.filterwarnings("ignore:these scores are log-probabilities")
@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_a_weight_is_a_number_of_repetitions(base: Any, estimator: str, evidence: Any, blobs: Any) -> None:
    """With weights 0, 1, 2 and 3, and folds that keep the copies of a sample together."""
    X, y = blobs([90, 45, 20])
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 4, size=len(y))
    folds = rng.integers(0, 4, size=len(y))
    aligner = EnergyAligner(estimator=estimator)
    weighted = EnergyAlignedClassifier(base, aligner=aligner, evidence=evidence, cv=PredefinedSplit(folds))
    repeated = EnergyAlignedClassifier(
        base, aligner=aligner, evidence=evidence, cv=PredefinedSplit(np.repeat(folds, weights))
    )
    weighted.fit(X, y, sample_weight=weights)
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    one, other = weighted.shifts_, repeated.shifts_
    assert (one.estimator, one.clusters) == (other.estimator, other.clusters)
    assert one.n_samples == other.n_samples == weights.sum()
    np.testing.assert_array_equal(one.counts, other.counts)
    # The strength of `auto` is an average over random draws per row: other rows have other draws.
    assert one.strength == pytest.approx(other.strength, abs=0.15 if estimator == "auto" else 1e-9)
    np.testing.assert_allclose(one.values / one.strength, other.values / other.strength, atol=1e-4)
    np.testing.assert_allclose(one.standard_errors / one.strength, other.standard_errors / other.strength, atol=1e-4)


def test_weights_of_one_change_nothing(long_tail: Problem) -> None:
    X, y = long_tail
    plain, ones = EnergyAlignedClassifier().fit(X, y), EnergyAlignedClassifier().fit(X, y, np.ones(len(y)))
    np.testing.assert_allclose(ones.shifts_.values, plain.shifts_.values, atol=1e-6)


def test_samples_of_weight_zero_are_not_there(long_tail: Problem) -> None:
    """Whatever their labels are."""
    X, y = long_tail
    wrong = np.random.default_rng(0).integers(0, 3, size=len(y))
    weights = np.r_[np.ones(len(y)), np.zeros(len(y))]
    aligner = EnergyAligner(estimator="marginal")
    folds = np.arange(len(y)) % 5
    plain = EnergyAlignedClassifier(aligner=aligner, cv=PredefinedSplit(folds)).fit(X, y)
    padded = EnergyAlignedClassifier(aligner=aligner, cv=PredefinedSplit(np.r_[folds, folds]))
    padded.fit(np.r_[X, X], np.r_[y, wrong], weights)
    np.testing.assert_allclose(padded.shifts_.values, plain.shifts_.values, atol=1e-3)
    assert padded.shifts_.counts.tolist() == [400, 80, 20]


def test_a_class_of_weight_zero_is_refused_by_name(long_tail: Problem) -> None:
    X, y = long_tail
    names = np.array(["ant", "bee", "cow"])[y]
    with pytest.raises(EnergyAlignError, match="all samples of class cow have weight 0: leave them out"):
        EnergyAlignedClassifier().fit(X, names, sample_weight=names != "cow")
    with pytest.raises(EnergyAlignError, match=r"y must have at least 2 classes, got one class \(cow\)"):
        EnergyAlignedClassifier().fit(X, names, sample_weight=names == "cow")


def test_negative_weights_are_refused(long_tail: Problem) -> None:
    X, y = long_tail
    with pytest.raises(EnergyAlignError, match="sample_weight must be >= 0, got -1"):
        EnergyAlignedClassifier().fit(X, y, sample_weight=np.where(np.arange(len(y)) == 7, -1.0, 1.0))


@pytest.mark.parametrize(
    "base", [KNeighborsClassifier(), make_pipeline(StandardScaler(), LogisticRegression())], ids=["knn", "pipeline"]
)
def test_a_classifier_that_takes_no_weights(base: Any, long_tail: Problem) -> None:
    X, y = long_tail
    with pytest.raises(EnergyAlignError, match=f"{type(base).__name__} does not support sample_weight"):
        EnergyAlignedClassifier(base).fit(X, y, sample_weight=np.ones(len(y)))


def test_a_frozen_classifier_needs_not_take_weights(long_tail: Problem) -> None:
    """It is not fitted: the weights apply to the evidence only."""
    X, y = long_tail
    frozen = KNeighborsClassifier(20).fit(X, y)
    weights = np.random.default_rng(0).integers(1, 4, size=len(y))
    aligner = EnergyAligner(estimator="marginal")
    weighted = EnergyAlignedClassifier(FrozenEstimator(frozen), aligner=aligner).fit(X, y, sample_weight=weights)
    repeated = EnergyAlignedClassifier(FrozenEstimator(frozen), aligner=aligner)
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.shifts_.values, repeated.shifts_.values, atol=1e-9)
