"""Saved and loaded estimators: the same predictions, the same shifts, and few types that must be trusted."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import numpy as np
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops.io.exceptions import UntrustedTypesFoundException

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError, Shifts

Problem = tuple[np.ndarray, np.ndarray]
DOCS = Path(__file__).parents[2] / "docs"

# As docs/scikit-learn.md lists them.
TRUSTED = ["energyalign.sklearn.aligner.EnergyAligner", "energyalign.sklearn.classifier.EnergyAlignedClassifier"]


def through_joblib(model: Any) -> Any:
    stream = BytesIO()
    joblib.dump(model, stream)
    return joblib.load(stream)


def through_skops(model: Any) -> Any:
    """Save and load with skops, trusting our types and the inner classifier's types unknown to skops."""
    return skops.io.loads(skops.io.dumps(model), trusted=TRUSTED + untrusted(getattr(model, "estimator_", None)))


def untrusted(model: Any) -> list[str]:
    return list(skops.io.get_untrusted_types(data=skops.io.dumps(model)))


WAYS: dict[str, Callable[[Any], Any]] = {
    "joblib": through_joblib,
    "cloudpickle": lambda model: pickle.loads(cloudpickle.dumps(model)),
    "skops": through_skops,
    "deepcopy": copy.deepcopy,
}


def assert_same_shifts(found: Shifts, wanted: Shifts) -> None:
    for field in fields(Shifts):
        a, b = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


@pytest.fixture(params=["linear", "probabilities", "pipeline", "frozen"])
def model(request: pytest.FixtureRequest, long_tail: Problem) -> EnergyAlignedClassifier:
    X, y = long_tail
    bases: dict[str, Any] = {
        "linear": LogisticRegression(),
        "probabilities": RandomForestClassifier(10, min_samples_leaf=5, random_state=0),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
        "frozen": FrozenEstimator(LogisticRegression().fit(X, y)),
    }
    return EnergyAlignedClassifier(bases[request.param]).fit(X, y)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_model_comes_back(model: EnergyAlignedClassifier, long_tail: Problem, way: str) -> None:
    X, _ = long_tail
    loaded = WAYS[way](model)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert_same_shifts(loaded.shifts_, model.shifts_)
    assert not loaded.shifts_.values.flags.writeable


def test_two_types_are_to_be_trusted(model: EnergyAlignedClassifier) -> None:
    assert set(untrusted(model)) == {*TRUSTED, *untrusted(model.estimator_)}
    with pytest.raises(UntrustedTypesFoundException):
        skops.io.loads(skops.io.dumps(model))
    page = (DOCS / "scikit-learn.md").read_text(encoding="utf-8")
    assert all(f'"{name}"' in page for name in TRUSTED)


@pytest.mark.parametrize("way", WAYS)
def test_an_aligner_alone(long_tail: Problem, way: str) -> None:
    X, y = long_tail
    logits = LogisticRegression().fit(X, y).decision_function(X)
    aligner = EnergyAligner(estimator="marginal").fit(logits, np.array(["ant", "bee", "cow"])[y])
    assert_same_shifts(WAYS[way](aligner).shifts_, aligner.shifts_)
    assert isinstance(aligner.shifts_, Shifts)  # that it was saved did not change it


def test_a_stream_goes_on_after_a_pickle(long_tail: Problem) -> None:
    X, y = long_tail
    logits = LogisticRegression().fit(X, y).decision_function(X)
    settings = {"estimator": "lse", "clusters": "per-class"}
    whole = EnergyAligner(**settings).partial_fit(logits)
    halves = through_joblib(EnergyAligner(**settings).partial_fit(logits[:200])).partial_fit(logits[200:])
    np.testing.assert_allclose(halves.shifts_.values, whole.shifts_.values)


@pytest.mark.parametrize("way", WAYS)
def test_before_fit(way: str) -> None:
    loaded = WAYS[way](EnergyAlignedClassifier(aligner=EnergyAligner(tau=0.5)))
    assert loaded.aligner.tau == 0.5
    assert not hasattr(loaded, "aligner_")


def test_a_damaged_state_is_refused(long_tail: Problem) -> None:
    X, y = long_tail
    state = EnergyAlignedClassifier().fit(X, y).aligner_.__getstate__()
    with pytest.raises(EnergyAlignError, match="not a file of shifts"):
        EnergyAligner().__setstate__({**state, "_shifts": "{}"})
