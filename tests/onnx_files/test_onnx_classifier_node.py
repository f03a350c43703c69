"""Trees and linear classifiers exported by skl2onnx: shifts are added to the logarithms of their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from skl2onnx import to_onnx
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from energyalign import EnergyAlignError, Shifts
from energyalign.sklearn.scores import class_logits

NAMES = np.array(["ant", "bée", "cow"])
BASES = [
    LogisticRegression(),
    DecisionTreeClassifier(min_samples_leaf=20, random_state=0),
    RandomForestClassifier(10, random_state=0),
    ExtraTreesClassifier(10, min_samples_leaf=5, random_state=0),
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression()),
]
LABELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "numbers": lambda y: y,
    "other numbers": lambda y: 10 * y + 7,
    "names": lambda y: NAMES[y],
}


@pytest.fixture
def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], [200, 60, 40])
    return (rng.normal(size=(300, 4)) + 1.2 * np.eye(4)[y]).astype(np.float32), y


def shifts_for(make_shifts: Any, n_classes: int) -> Shifts:
    shifts: Shifts = make_shifts([-1.0, 0.5, 1.5][:n_classes])
    return shifts


def assert_aligned(shop: Any, model: Any, X: np.ndarray) -> None:
    """Check that the file returns the classifier's own logits with shifts."""
    onnx.checker.check_model(str(shop.out), full_check=True)
    before, after = shop.run_both({"X": X})
    assert list(before) == list(after)
    labels, probabilities = after.values()
    if isinstance(probabilities, list):  # of maps
        assert all(list(one) == model.classes_.tolist() for one in probabilities)
        probabilities = np.array([list(one.values()) for one in probabilities])
    wanted = shop.shifts.predict_proba(class_logits(model, X, model.classes_))
    np.testing.assert_allclose(probabilities, wanted, atol=2e-6)
    two, one = np.sort(wanted, axis=1)[:, -2:].T
    clear = one - two > 1e-5
    best = model.classes_[wanted.argmax(axis=1)]
    np.testing.assert_array_equal(np.asarray(labels)[clear], best[clear])
    assert np.any(best != model.predict(X))


@pytest.mark.parametrize("zipmap", [False, True], ids=["arrays", "maps"])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
def test_probabilities_and_labels(
    workshop: Any, make_shifts: Any, samples: Any, base: Any, n_classes: int, labels: str, zipmap: bool
) -> None:
    X, y = samples
    X, y = X[y < n_classes], LABELS[labels](y[y < n_classes])
    model = base.fit(X, y)
    onnx.save(to_onnx(model, X[:1], options={"zipmap": zipmap}), workshop.source)
    workshop.shifts = shifts_for(make_shifts, n_classes)
    done = workshop.align()
    assert done.how == "renormalised"
    assert sorted(done.outputs.values()) == ["labels", "probabilities"]
    assert done.largest_deviation < 1e-6
    assert_aligned(workshop, model, X)


def test_shifts_are_matched_by_the_names_of_the_classes(workshop: Any, make_shifts: Any, samples: Any) -> None:
    X, y = samples
    model = LogisticRegression().fit(X, NAMES[y])
    onnx.save(to_onnx(model, X[:1], options={"zipmap": False}), workshop.source)
    turned = replace(make_shifts([1.5, -1.0, 0.5]), class_names=("cow", "ant", "bée"))
    workshop.shifts = turned
    workshop.align()
    workshop.shifts = make_shifts([-1.0, 0.5, 1.5])
    assert_aligned(workshop, model, X)
    workshop.shifts = replace(turned, class_names=("cow", "ant", "bee"))
    with pytest.raises(EnergyAlignError, match=r"\[cow, ant, bee\], but those of .*model.onnx are \[ant, bée, cow\]"):
        workshop.align()


def test_a_probe_and_a_second_time(workshop: Any, make_shifts: Any, samples: Any) -> None:
    X, y = samples
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    onnx.save(to_onnx(model, X[:1], options={"zipmap": False}), workshop.source)
    workshop.shifts = shifts_for(make_shifts, 3)
    assert workshop.align(probe={"X": X}).n_probes == 1
    workshop.source.write_bytes(workshop.out.read_bytes())
    with pytest.raises(EnergyAlignError, match="already aligned"):
        workshop.align()


def test_scores_that_are_no_probabilities_are_refused(workshop: Any, make_shifts: Any, samples: Any) -> None:
    X, y = samples
    onnx.save(to_onnx(LinearSVC().fit(X, y), X[:1]), workshop.source)
    workshop.shifts = shifts_for(make_shifts, 3)
    with pytest.raises(EnergyAlignError, match="is made by LinearClassifier"):
        workshop.align()
    assert not workshop.out.exists()


def test_damaged_class_labels(workshop: Any, make_shifts: Any, samples: Any) -> None:
    X, y = samples
    model = to_onnx(LogisticRegression().fit(X, NAMES[y]), X[:1], options={"zipmap": False})
    (labels,) = [one for one in model.graph.node[0].attribute if one.name == "classlabels_strings"]
    labels.strings[1] = b"\xff"
    onnx.save(model, workshop.source)
    workshop.shifts = shifts_for(make_shifts, 3)
    with pytest.raises(EnergyAlignError, match=r"model\.onnx is damaged or not an ONNX model"):
        workshop.align()


def test_shifts_for_another_number_of_classes(workshop: Any, make_shifts: Any, samples: Any) -> None:
    X, y = samples
    onnx.save(to_onnx(LogisticRegression().fit(X, y), X[:1]), workshop.source)
    workshop.shifts = shifts_for(make_shifts, 2)
    with pytest.raises(EnergyAlignError, match="has no recognisable logits output for 2 classes"):
        workshop.align()
