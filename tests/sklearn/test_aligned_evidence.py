"""Which samples the shifts are learnt from, and which model scores them."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, PredefinedSplit, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from xgboost import XGBClassifier

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError, UntrustedEstimateWarning

Problem = tuple[np.ndarray, np.ndarray]


class Recorder(ClassifierMixin, BaseEstimator):
    """Records the rows (numbered in column 0) that it was fitted on and that it scored."""

    asked: ClassVar[list[tuple[frozenset[int], list[int]]]] = []

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.classes_ = np.unique(y)
        self.rows_ = frozenset(X[:, 0].astype(int))
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        self.asked.append((self.rows_, X[:, 0].astype(int).tolist()))
        return np.sin(np.outer(X[:, 0], np.arange(1, 4)))  # some scores or other


@pytest.fixture
def numbered(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """Return 30 + 12 + 6 samples whose first feature is their index, and an empty record."""
    monkeypatch.setattr(Recorder, "asked", [])
    X, y = blobs([30, 12, 6])
    X[:, 0] = np.arange(len(X))
    return X, y


def scored_rows() -> Counter[int]:
    return Counter(row for _, rows in Recorder.asked for row in rows)


def leaks() -> int:
    """Return the rows that a model scored after being fitted on them."""
    return sum(row in fitted for fitted, rows in Recorder.asked for row in rows)


def test_every_row_is_scored_once_by_a_model_that_has_not_seen_it(numbered: Problem) -> None:
    model = EnergyAlignedClassifier(Recorder(), aligner=EnergyAligner(estimator="lse"), cv=4).fit(*numbered)
    assert len(Recorder.asked) == 4
    assert scored_rows() == Counter(range(48))
    assert leaks() == 0
    assert model.estimator_.rows_ == frozenset(range(48))
    assert model.shifts_.n_samples == 48
    assert model.shifts_.evidence_kind == "out-of-fold"


class Witness(EnergyAligner):
    """Records its training data."""

    def fit(self, *arrays: Any, **known: Any) -> Self:
        self.arrays_, self.known_ = arrays, known
        return super().fit(*arrays, **known)


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_samples_that_one_model_scored_stay_together_in_the_selection(numbered: Problem) -> None:
    """Their logits share the errors of that model."""
    X, y = numbered
    folds = np.arange(48) % 5
    model = EnergyAlignedClassifier(Recorder(), aligner=Witness(), cv=PredefinedSplit(folds)).fit(X, y)
    np.testing.assert_array_equal(model.aligner_.known_["groups"], folds)
    np.testing.assert_array_equal(model.aligner_.arrays_[1], y)


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_with_fewer_folds_than_the_selection_makes_it_splits_by_the_user_s_groups(numbered: Problem) -> None:
    X, y = numbered
    groups = np.arange(48) // 2
    model = EnergyAlignedClassifier(Recorder(), aligner=Witness(), cv=3)
    np.testing.assert_array_equal(model.fit(X, y, groups=groups).aligner_.known_["groups"], groups)
    assert model.fit(X, y).aligner_.known_["groups"] is None


def test_training_evidence_is_scored_by_the_model_that_has_seen_it(numbered: Problem) -> None:
    """This also shows that `leaks` can detect a leak."""
    aligner = EnergyAligner(estimator="lse")
    model = EnergyAlignedClassifier(Recorder(), aligner=aligner, evidence="training").fit(*numbered)
    assert len(Recorder.asked) == 1
    assert leaks() == 48
    assert model.shifts_.evidence_kind == "training"


@pytest.mark.filterwarnings("ignore:the evidence cannot show whether aligning helps")
def test_rows_that_no_fold_scores_are_no_evidence(numbered: Problem) -> None:
    cv = ShuffleSplit(1, test_size=0.5, random_state=0)
    model = EnergyAlignedClassifier(Recorder(), aligner=EnergyAligner(estimator="lse"), cv=cv).fit(*numbered)
    assert leaks() == 0
    assert model.shifts_.n_samples == len(scored_rows()) == 24
    assert model.shifts_.counts.tolist() == [30, 12, 6]  # the training data is what it is


def test_the_only_sample_of_a_class_is_trained_on_and_never_scored(numbered: Problem) -> None:
    X, y = numbered
    y = np.where(y == 2, 1, y)
    y[17] = 2
    with pytest.warns(UntrustedEstimateWarning, match="no labelled evidence for class 2"):
        EnergyAlignedClassifier(Recorder(), aligner=EnergyAligner(estimator="lse"), cv=4).fit(X, y)
    assert scored_rows() == Counter(set(range(48)) - {17})
    assert leaks() == 0
    assert all(17 in fitted for fitted, _ in Recorder.asked)


def test_a_class_with_fewer_samples_than_folds_is_no_reason_to_warn(blobs: Any) -> None:
    model = EnergyAlignedClassifier(aligner=EnergyAligner(estimator="marginal"), cv=10).fit(*blobs([120, 40, 8]))
    assert model.shifts_.n_samples == 168
    assert model.shifts_.values[0] < model.shifts_.values[1] < model.shifts_.values[2]


def test_more_folds_than_samples_of_any_class(blobs: Any) -> None:
    X, y = blobs([4, 3])
    bayes, aligner = GaussianNB(var_smoothing=1.0), EnergyAligner(estimator="marginal")
    many, four = (EnergyAlignedClassifier(bayes, aligner=aligner, cv=cv).fit(X, y) for cv in (10, 4))
    np.testing.assert_allclose(many.shifts_.values, four.shifts_.values, atol=1e-12)


@pytest.mark.parametrize("rare", [0, 1, 2])
@pytest.mark.parametrize("base", [LogisticRegression(), XGBClassifier(n_estimators=5, n_jobs=1)], ids=["linear", "xgb"])
def test_a_class_with_one_sample_takes_the_shift_its_count_suggests_and_is_named(
    base: Any, rare: int, blobs: Any
) -> None:
    """XGBoost refuses labels with a gap, so every fold must contain every class."""
    X, y = blobs([100, 30, 1])
    labels = (y + rare + 1) % 3  # class 2, the rare one, is called `rare`
    with pytest.warns(UntrustedEstimateWarning, match=f"no labelled evidence for class {rare}: the shift"):
        model = EnergyAlignedClassifier(base).fit(X, labels)
    medium = (1 + rare + 1) % 3
    assert model.shifts_.values[medium] == 0
    common, alone = model.shifts_.values[(rare + 1) % 3], model.shifts_.values[rare]
    assert alone / -common == pytest.approx(np.log(30) / np.log(100 / 30), rel=0.35)  # on the line of the others
    assert model.predict_proba(X).shape == (131, 3)


def test_a_class_with_one_sample_cannot_have_a_shift_of_its_own(blobs: Any) -> None:
    aligner = EnergyAligner(estimator="marginal", clusters="per-class")
    with pytest.raises(EnergyAlignError, match="no evidence for class 2: a class needs evidence for a shift"):
        EnergyAlignedClassifier(aligner=aligner).fit(*blobs([100, 30, 1]))


def test_the_counts_correct_a_class_with_one_sample(blobs: Any) -> None:
    aligner = EnergyAligner(estimator="prior")
    shifts = EnergyAlignedClassifier(aligner=aligner).fit(*blobs([100, 30, 1])).shifts_
    np.testing.assert_allclose(shifts.values - shifts.values[0], np.log([1, 100 / 30, 100]))


def test_no_class_with_two_samples(blobs: Any) -> None:
    X, y = blobs([1, 1])
    with pytest.raises(EnergyAlignError, match="a class with at least 2 samples: use evidence='training'"):
        EnergyAlignedClassifier().fit(X, y)
    aligner = EnergyAligner(estimator="prior")
    EnergyAlignedClassifier(aligner=aligner, evidence="training").fit(X, y, counts=[1, 1])


def shifts_with(cv: Any, problem: Problem) -> np.ndarray:
    return EnergyAlignedClassifier(aligner=EnergyAligner(estimator="lse"), cv=cv).fit(*problem).shifts_.values


def test_folds_as_a_number_a_splitter_or_a_list(long_tail: Problem) -> None:
    X, y = long_tail
    three = shifts_with(3, long_tail)
    np.testing.assert_allclose(shifts_with(StratifiedKFold(3), long_tail), three, atol=1e-12)
    np.testing.assert_allclose(shifts_with(list(StratifiedKFold(3).split(X, y)), long_tail), three, atol=1e-12)
    np.testing.assert_allclose(shifts_with(StratifiedKFold(3).split(X, y), long_tail), three, atol=1e-12)
    np.testing.assert_allclose(shifts_with(None, long_tail), shifts_with(5, long_tail), atol=1e-12)
    assert np.any(shifts_with(KFold(3), long_tail) != three)


@pytest.mark.parametrize("cv", [1, 0, -3])
def test_too_few_folds(cv: int, long_tail: Problem) -> None:
    with pytest.raises(ValueError, match="n_splits=2 or more"):
        shifts_with(cv, long_tail)


@pytest.mark.parametrize("cv", [[], [(np.arange(500), np.arange(0))]], ids=["no folds", "a fold that scores nothing"])
def test_folds_that_score_nothing(cv: Any, long_tail: Problem) -> None:
    with pytest.raises(EnergyAlignError, match="out-of-fold evidence is empty"):
        shifts_with(cv, long_tail)


@pytest.mark.filterwarnings("ignore:the evidence cannot show whether aligning helps")
def test_a_fold_that_knows_one_class_only_is_left_out(blobs: Any) -> None:
    X, y = blobs([40, 20])
    order = np.argsort(y, kind="stable")
    zeros, ones = order[:40], order[40:]
    useless = (zeros[:20], zeros[20:])
    useful = (np.r_[zeros[:30], ones[:10]], np.r_[zeros[30:], ones[10:]])
    np.testing.assert_allclose(shifts_with([useless, useful], (X, y)), shifts_with([useful], (X, y)), atol=1e-12)


@pytest.mark.filterwarnings("ignore:the evidence cannot show whether aligning helps")
def test_a_fold_that_does_not_know_a_class_masks_it(blobs: Any) -> None:
    """Its models score the other classes; the shift of the class comes from folds that have it."""
    X, y = blobs([40, 20, 20])
    without = np.flatnonzero(y != 2)
    folds = [(without[::2], without[1::2]), (np.arange(0, 80, 2), np.arange(1, 80, 2))]
    model = EnergyAlignedClassifier(aligner=EnergyAligner(estimator="marginal"), cv=folds).fit(X, y)
    assert np.all(np.isfinite(model.shifts_.values))


def test_a_frozen_classifier_is_aligned_on_the_data_given(long_tail: Problem, blobs: Any, balanced: Problem) -> None:
    frozen = LogisticRegression().fit(*long_tail)
    before = frozen.coef_.copy()
    held_out = blobs([50, 50, 50], seed=2)
    model = EnergyAlignedClassifier(FrozenEstimator(frozen)).fit(*held_out)
    np.testing.assert_array_equal(frozen.coef_, before)
    assert model.shifts_.evidence_kind == "held-out"
    assert model.shifts_.counts is None  # a balanced sample contains no information about the training data
    expected = EnergyAligner(evidence="held-out").fit(frozen.decision_function(held_out[0]), held_out[1])
    np.testing.assert_allclose(model.shifts_.values, expected.shifts_.values, atol=1e-12)
    assert model.score(*balanced) > frozen.score(*balanced) + 0.1


def test_a_frozen_classifier_with_the_counts_it_was_trained_on(long_tail: Problem, blobs: Any) -> None:
    frozen = FrozenEstimator(LogisticRegression().fit(*long_tail))
    model = EnergyAlignedClassifier(frozen).fit(*blobs([50, 50, 50], seed=2), counts=[400, 80, 20])
    assert model.shifts_.counts.tolist() == [400, 80, 20]
    assert model.shifts_.estimator == "shrunk"


def test_a_frozen_classifier_on_its_own_training_data_if_one_says_so(long_tail: Problem) -> None:
    frozen = FrozenEstimator(LogisticRegression().fit(*long_tail))
    model = EnergyAlignedClassifier(frozen, evidence="training").fit(*long_tail)
    assert model.shifts_.evidence_kind == "training"


def test_a_frozen_classifier_that_is_not_fitted(long_tail: Problem) -> None:
    with pytest.raises(NotFittedError, match="LogisticRegression instance is not fitted"):
        EnergyAlignedClassifier(FrozenEstimator(LogisticRegression())).fit(*long_tail)


def test_a_frozen_classifier_that_does_not_know_a_class(long_tail: Problem) -> None:
    X, y = long_tail
    frozen = FrozenEstimator(LogisticRegression().fit(X[y < 2], y[y < 2]))
    with pytest.raises(EnergyAlignError, match="y has labels that no column stands for: 2"):
        EnergyAlignedClassifier(frozen).fit(X, y)


def test_kinds_of_evidence_that_do_not_fit(long_tail: Problem) -> None:
    frozen = FrozenEstimator(LogisticRegression().fit(*long_tail))
    with pytest.raises(EnergyAlignError, match=r"wrap it in sklearn\.frozen\.FrozenEstimator"):
        EnergyAlignedClassifier(evidence="held-out").fit(*long_tail)
    with pytest.raises(EnergyAlignError, match="use evidence='held-out' or 'training'"):
        EnergyAlignedClassifier(frozen, evidence="out-of-fold").fit(*long_tail)
    with pytest.raises(EnergyAlignError, match="unknown evidence 'test': choose auto, out-of-fold, training, held-out"):
        EnergyAlignedClassifier(evidence="test").fit(*long_tail)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [GaussianNB(), KNeighborsClassifier(20), LogisticRegression()])
def test_auto_compares_raw_aligned_and_scaled(base: Any, long_tail: Problem) -> None:
    shifts = EnergyAlignedClassifier(base).fit(*long_tail).shifts_
    assert [candidate.estimator for candidate in shifts.selection.candidates] == ["none", "shrunk", "shrunk"]
    assert shifts.selection.candidates[2].strength == shifts.strength
    assert shifts.selection.gain > shifts.selection.gain_error > 0


def test_lse_on_probabilities_is_done_if_asked_for_and_warned_of(long_tail: Problem) -> None:
    aligner = EnergyAligner(estimator="lse")
    with pytest.warns(UntrustedEstimateWarning, match=r"log-probabilities.*use estimator 'marginal'"):
        model = EnergyAlignedClassifier(GaussianNB(), aligner=aligner).fit(*long_tail)
    assert model.shifts_.estimator == "lse"
    assert "log-probabilities" in model.shifts_.concerns[0]
