"""Outputs of both estimators: logarithms of probabilities, and data frames with class names."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError

Problem = tuple[np.ndarray, np.ndarray]
NAMES = np.array(["ant", "bee", "cow"])


@pytest.fixture
def aligner(long_tail: Problem) -> EnergyAligner:
    X, y = long_tail
    logits = LogisticRegression().fit(X, y).decision_function(X)
    return EnergyAligner(estimator="marginal").fit(logits, NAMES[y])


def test_logarithms_hold_where_probabilities_are_zero(aligner: EnergyAligner) -> None:
    logits = np.array([[0.0, -1000.0, 2000.0], [1.0, -np.inf, 0.5]])
    found = aligner.predict_log_proba(logits)
    np.testing.assert_allclose(found, log_softmax(logits + aligner.shifts_.values, axis=1))
    assert aligner.predict_proba(logits)[0, 0] == 0.0
    assert found[0, 0] < -1900
    assert found[1, 1] == -np.inf


def test_logarithms_in_other_arrays_and_half_precision(aligner: EnergyAligner) -> None:
    logits = np.array([[1000.0, 1001.0, 999.0]], dtype=np.float16)
    found = aligner.predict_log_proba(logits)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, log_softmax(logits + aligner.shifts_.values, axis=1), atol=1e-4)
    strict = array_api_strict.asarray(logits.astype(np.float32))
    assert type(aligner.predict_log_proba(strict)) is type(strict)


def test_logarithms_of_nothing_possible_are_refused(aligner: EnergyAligner) -> None:
    with pytest.raises(EnergyAlignError, match="probabilities are undefined"):
        aligner.predict_log_proba(np.full((1, 3), -np.inf))


def test_logarithms_of_the_classifier(long_tail: Problem) -> None:
    X, y = long_tail
    model = EnergyAlignedClassifier().fit(X, y)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    with pytest.raises(NotFittedError):
        EnergyAlignedClassifier().predict_log_proba(X)


def test_columns_are_called_like_the_classes(aligner: EnergyAligner) -> None:
    assert aligner.get_feature_names_out().tolist() == NAMES.tolist()
    with pytest.raises(NotFittedError):
        EnergyAligner().get_feature_names_out()


def test_a_data_frame_on_request(long_tail: Problem) -> None:
    """After a classifier's logits in a pipeline, with the index of the samples."""
    X, y = long_tail
    logits = LogisticRegression().fit(X, y).decision_function(X)
    pipeline = make_pipeline(FunctionTransformer(lambda X: X / 2), EnergyAligner(estimator="marginal"))
    plain = pipeline.fit(logits, NAMES[y]).transform(logits)
    assert isinstance(plain, np.ndarray)
    table = pd.DataFrame(logits, columns=NAMES, index=np.arange(len(y)) + 7)
    found: Any = pipeline.set_output(transform="pandas").fit(table, NAMES[y]).transform(table)
    pd.testing.assert_frame_equal(found, pd.DataFrame(plain, columns=NAMES, index=table.index), check_names=False)
