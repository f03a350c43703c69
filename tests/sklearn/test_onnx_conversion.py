"""skl2onnx converts aligned classifiers, and onnxruntime agrees with scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest
from skl2onnx import to_onnx
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from energyalign import EnergyAlignedClassifier, EnergyAligner, EnergyAlignError

NAMES = np.array(["ant", "bée", "cow"])
BASES = [
    LogisticRegression(),
    SGDClassifier(random_state=0),
    RidgeClassifier(),
    LinearSVC(),
    SVC(),
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    AdaBoostClassifier(n_estimators=5, random_state=0),
    OneVsRestClassifier(LogisticRegression()),
    DecisionTreeClassifier(min_samples_leaf=20, random_state=0),
    RandomForestClassifier(10, random_state=0),
    GaussianNB(),
    MLPClassifier((4,), max_iter=20, solver="lbfgs", random_state=0),
    CalibratedClassifierCV(LogisticRegression(), cv=2),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
]


def aligned(base: Any, X: np.ndarray, y: np.ndarray) -> EnergyAlignedClassifier:
    """Fit with shifts that change many predictions."""
    return EnergyAlignedClassifier(base, aligner=EnergyAligner(estimator="prior"), cv=2).fit(X, y)


def run(model: Any, X: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    file = to_onnx(model, X[:1], **options).SerializeToString()
    labels, probabilities = onnxruntime.InferenceSession(file).run(None, {"X": X})
    return labels, probabilities


def assert_same(model: Any, X: np.ndarray, **options: Any) -> None:
    labels, probabilities = run(model, X, **options)
    wanted = model.predict_proba(X)
    assert probabilities.dtype == X.dtype
    np.testing.assert_allclose(probabilities, wanted, atol=2e-6)
    two, one = np.sort(wanted, axis=1)[:, -2:].T
    clear = one - two > 1e-5
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(labels[clear], model.predict(X)[clear])


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge", "ignore:Attribute `prob")
@pytest.mark.parametrize("counts", [[150, 30], [150, 30, 20]], ids=["two classes", "three"])
@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
def test_the_same_labels_and_probabilities(blobs: Any, base: Any, counts: list[int]) -> None:
    X, y = blobs(counts)
    X = X.astype(np.float32)
    model = aligned(base, X, NAMES[y])
    assert np.any(model.predict(X) != model.estimator_.predict(X))
    assert_same(model, X)


@pytest.mark.parametrize("labels", [[10, 20, 40], [False, True]], ids=str)
def test_labels_that_are_numbers(blobs: Any, labels: list[Any]) -> None:
    X, y = blobs([150, 30, 20][: len(labels)])
    model = aligned(LogisticRegression(), X, np.array(labels)[y])
    assert_same(model, X)  # in float64
    assert run(model, X)[0].dtype == np.int64


def test_the_last_step_of_a_pipeline_and_a_frozen_classifier(long_tail: Any) -> None:
    X, y = long_tail
    X = X.astype(np.float32)
    frozen = FrozenEstimator(RandomForestClassifier(10, min_samples_leaf=5, random_state=0).fit(X, y))
    assert_same(make_pipeline(StandardScaler(), EnergyAlignedClassifier(LogisticRegression())).fit(X, y), X)
    assert_same(EnergyAlignedClassifier(frozen).fit(X, y), X)


def test_the_option_that_everybody_gives(long_tail: Any) -> None:
    X, y = long_tail
    model = EnergyAlignedClassifier().fit(X, y)
    assert_same(model, X, options={"zipmap": False})
    assert_same(model, X, options={id(model): {"zipmap": False}})
    with pytest.raises(ValueError, match="zipmap"):
        run(model, X, options={"zipmap": True})


@pytest.mark.filterwarnings("ignore:The `probability` parameter was deprecated")
@pytest.mark.parametrize("base", [SVC(probability=True), QuadraticDiscriminantAnalysis()], ids=["SVC", "QDA"])
def test_what_skl2onnx_cannot_give_is_refused(long_tail: Any, base: Any) -> None:
    X, y = long_tail
    model = aligned(FrozenEstimator(base.fit(X, y)), X, y)
    with pytest.raises(EnergyAlignError, match=r"decision function of .*, which was aligned"):
        run(model, X)


def test_it_is_not_imported_before_it_is_needed() -> None:
    """The first conversion equals the second, whichever library is imported first."""
    code = """if True:
        import sys
        import numpy as np
        from energyalign import EnergyAlignedClassifier
        X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
        model = EnergyAlignedClassifier(evidence="training").fit(X, X[:, 0] + X[:, 1] > 1)
        assert "skl2onnx" not in sys.modules
        from skl2onnx import to_onnx
        first, second = (to_onnx(model, X).graph for _ in range(2))
        assert [one.name for one in first.output] == [one.name for one in second.output] == ["label", "probabilities"]
        assert [one.type for one in first.output] == [one.type for one in second.output]
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
