"""Groups and weights with scikit-learn's metadata routing, and groups without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn._config import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedGroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError

Problem = tuple[np.ndarray, np.ndarray]


class Recorder(ClassifierMixin, BaseEstimator):
    """A logistic regression that records the arguments of every fit, including its clones'."""

    fits: list[dict[str, Any]]

    def __init__(self, fits: Any = None) -> None:
        self.fits = fits

    def __sklearn_clone__(self) -> Recorder:  # the list is shared
        copy = Recorder(self.fits)
        copy._metadata_request = self._get_metadata_request()
        return copy

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, cost: Any = None) -> Recorder:
        self.fits.append({"X": X, "sample_weight": sample_weight, "groups": groups, "cost": cost})
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def decision_function(self, X: Any) -> Any:
        return self.inner_.decision_function(X)


@pytest.fixture
def routing() -> Iterator[None]:
    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def samples(long_tail: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return samples whose first column is their index, in 50 groups of 10."""
    X, y = long_tail
    X = np.column_stack([np.arange(len(y)) / len(y), X])
    groups = np.array([f"patient {k}" for k in np.random.default_rng(0).permutation(len(y)) % 50])
    return X, y, groups, np.linspace(0.5, 2.0, len(y))


def rows(X: np.ndarray) -> np.ndarray:
    return np.rint(X[:, 0] * 500).astype(int)


@pytest.mark.parametrize("cv", [5, GroupKFold(4)])
def test_no_fold_separates_a_group(samples: Any, cv: Any) -> None:
    X, y, groups, _ = samples
    base = Recorder([])
    model = EnergyAlignedClassifier(base, cv=cv).fit(X, y, groups=groups)
    splitter = StratifiedGroupKFold(5) if cv == 5 else cv
    _, *folds = [set(rows(one["X"])) for one in base.fits]  # the first is on all samples
    assert folds == [set(train) for train, _ in splitter.split(X, y, groups)]
    assert all(one["groups"] is None for one in base.fits)
    assert np.any(model.shifts_.values != EnergyAlignedClassifier().fit(X, y).shifts_.values)


def test_groups_of_the_wrong_length_and_a_splitter_that_ignores_them(samples: Any) -> None:
    X, y, groups, _ = samples
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        EnergyAlignedClassifier().fit(X, y, groups=groups[1:])
    with pytest.warns(UserWarning, match="groups parameter is ignored by KFold"):
        EnergyAlignedClassifier(cv=KFold(5)).fit(X, y, groups=groups)


def test_a_frozen_classifier_is_scored_without_separating_groups(samples: Any) -> None:
    X, y, groups, weights = samples
    fitted = LogisticRegression().fit(X, y)
    model = EnergyAlignedClassifier(FrozenEstimator(fitted)).fit(X, y, weights, groups=groups)
    wanted = EnergyAligner(evidence="held-out").fit(
        fitted.decision_function(X), y, sample_weight=weights, groups=groups
    )
    np.testing.assert_array_equal(model.shifts_.values, wanted.shifts_.values)
    assert model.shifts_.selection == wanted.shifts_.selection


def test_other_metadata_needs_routing(samples: Any) -> None:
    X, y, _, _ = samples
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        EnergyAlignedClassifier(Recorder([])).fit(X, y, cost=3)


@pytest.mark.usefixtures("routing")
def test_each_fit_gets_what_it_requests_of_its_samples(samples: Any) -> None:
    X, y, groups, weights = samples
    base = Recorder([]).set_fit_request(sample_weight=True, groups=True, cost=True)
    EnergyAlignedClassifier(base, cv=5).fit(X, y, sample_weight=weights, groups=groups, cost=3)
    assert len(base.fits) == 6
    for one in base.fits:
        np.testing.assert_array_equal(one["sample_weight"], weights[rows(one["X"])])
        np.testing.assert_array_equal(one["groups"], groups[rows(one["X"])])
        assert one["cost"] == 3


@pytest.mark.usefixtures("routing")
def test_what_the_classifier_does_not_request_is_ours_alone(samples: Any) -> None:
    X, y, groups, weights = samples
    base = Recorder([]).set_fit_request(sample_weight=False, groups=False)
    model = EnergyAlignedClassifier(base).fit(X, y, sample_weight=weights, groups=groups)
    assert all(one["sample_weight"] is None and one["groups"] is None for one in base.fits)
    assert model.shifts_.n_samples == pytest.approx(weights.sum() ** 2 / np.sum(weights**2))
    with pytest.raises(UnsetMetadataPassedError):
        EnergyAlignedClassifier(LogisticRegression()).fit(X, y, sample_weight=weights)
    with pytest.raises(TypeError, match="unexpected argument"):
        EnergyAlignedClassifier(FrozenEstimator(LogisticRegression().fit(X, y))).fit(X, y, cost=3)


def test_weights_reach_the_last_step_of_a_pipeline(samples: Any) -> None:
    X, y, _, weights = samples
    base = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(EnergyAlignError, match="Pipeline does not support sample_weight"):
        EnergyAlignedClassifier(base).fit(X, y, weights)
    with config_context(enable_metadata_routing=True):
        base[0].set_fit_request(sample_weight=False)
        base[-1].set_fit_request(sample_weight=True)
        model = EnergyAlignedClassifier(base).fit(X, y, weights)
    wanted = LogisticRegression().fit(StandardScaler().fit_transform(X), y, weights)
    np.testing.assert_allclose(model.estimator_[-1].coef_, wanted.coef_)


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
@pytest.mark.usefixtures("routing")
def test_inside_a_pipeline_a_search_and_a_cross_validation(samples: Any) -> None:
    """Groups are requested by default; weights need `set_fit_request`, as everywhere."""
    X, y, groups, weights = samples
    base = Recorder([]).set_fit_request(sample_weight=True, groups=False)
    inner = EnergyAlignedClassifier(base, cv=GroupKFold(3)).set_fit_request(sample_weight=True)
    scorer = make_scorer(balanced_accuracy_score).set_score_request(sample_weight=False)
    keep = FunctionTransformer()
    search = GridSearchCV(
        make_pipeline(keep, inner), {"energyalignedclassifier__evidence": ["out-of-fold"]}, cv=GroupKFold(2),
        scoring=scorer,
    )  # fmt: skip
    cross_validate(search, X, y, params={"sample_weight": weights, "groups": groups}, cv=GroupKFold(2), scoring=scorer)
    sets = [set(groups[rows(one["X"])]) for one in base.fits]
    # Outer folds x (folds of the search, and its refit) x (all samples, and folds).
    assert len(sets) == 2 * (2 + 1) * (1 + 3)
    for everyone, *folds in [sets[k : k + 4] for k in range(0, len(sets), 4)]:
        left_out = [everyone - fold for fold in folds]
        assert set.union(*left_out) == everyone
        assert sum(map(len, left_out)) == len(everyone)  # each group is held out once, as a whole
    for one in base.fits:
        np.testing.assert_array_equal(one["sample_weight"], weights[rows(one["X"])])


@pytest.mark.usefixtures("routing")
def test_an_aligner_in_a_pipeline(samples: Any) -> None:
    X, y, groups, weights = samples
    logits = LogisticRegression().fit(X, y).decision_function(X)
    aligner = EnergyAligner(evidence="held-out").set_fit_request(sample_weight=True, counts=True)
    pipeline = make_pipeline(FunctionTransformer(), aligner)
    counts = [400, 80, 20]
    pipeline.fit(logits, y, sample_weight=weights, groups=groups, counts=counts)
    wanted = EnergyAligner(evidence="held-out").fit(logits, y, sample_weight=weights, groups=groups, counts=counts)
    assert pipeline[-1].shifts_.selection == wanted.shifts_.selection
    assert wanted.shifts_.selection != EnergyAligner(evidence="held-out").fit(logits, y).shifts_.selection
