"""Which label each column of logits has, and arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import get_scorer

from energyalign import EnergyAligner, EnergyAlignError
from energyalign.core.errors import UntrustedEstimateWarning

NUMBERS = np.repeat([0, 1, 2], [15, 10, 5])
LOGITS = np.random.default_rng(0).normal(loc=[2, 1, 0], size=(30, 3)) + 2 * np.eye(3)[NUMBERS]
EXPECTED = EnergyAligner(estimator="marginal").fit(LOGITS, NUMBERS)


def aligner(**options: Any) -> EnergyAligner:
    return EnergyAligner(**{"estimator": "marginal", **options})


@pytest.mark.parametrize(
    "classes",
    [[0, 1, 2], [1, 2, 3], [10, 200, 3000], [-1, 0, 2], ["ant", "bee", "cow"], [0.5, 1.5, 2.5]],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_labels_of_all_classes_name_the_columns_in_order(classes: list[Any], kind: Any) -> None:
    names = np.array(classes)
    fitted = aligner().fit(LOGITS, kind(names[NUMBERS]))
    assert fitted.classes_.tolist() == classes
    np.testing.assert_allclose(fitted.shifts_.values, EXPECTED.shifts_.values, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(LOGITS), names[EXPECTED.predict(LOGITS)])
    assert fitted.shifts_.class_names == tuple(str(name) for name in names)


@pytest.mark.parametrize("classes", [[-1, 1], [False, True]], ids=str)
def test_two_classes(classes: list[Any]) -> None:
    names = np.array(classes)
    fitted = aligner().fit(LOGITS[:, :2], names[(NUMBERS > 0).astype(int)])
    assert fitted.classes_.tolist() == classes
    assert set(fitted.predict(LOGITS[:, :2])) == set(classes)


@given(st.permutations(["ant", "bee", "cow"]))
def test_classes_say_what_the_columns_are_in_any_order(classes: list[str]) -> None:
    fitted = aligner(classes=classes).fit(LOGITS, np.array(classes)[NUMBERS])
    np.testing.assert_allclose(fitted.shifts_.values, EXPECTED.shifts_.values, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(LOGITS), np.array(classes)[EXPECTED.predict(LOGITS)])


def test_numbers_below_the_number_of_columns_may_leave_some_out() -> None:
    labels = np.where(NUMBERS == 1, 0, NUMBERS)
    fitted = aligner(estimator="prior").fit(LOGITS, labels, counts=[3, 2, 1])
    assert fitted.classes_.tolist() == [0, 1, 2]


def test_names_that_leave_some_out_need_classes() -> None:
    labels = np.where(NUMBERS == 1, "ant", "cow")
    with pytest.raises(EnergyAlignError, match=r"2 distinct labels .* 3 columns: .* with classes=\[...\]"):
        aligner().fit(LOGITS, labels)
    fitted = aligner(estimator="prior", classes=["ant", "bee", "cow"]).fit(LOGITS, labels, counts=[3, 2, 1])
    assert fitted.classes_.tolist() == ["ant", "bee", "cow"]


def test_more_labels_than_columns() -> None:
    with pytest.raises(EnergyAlignError, match="3 distinct labels and the logits have 2 columns"):
        aligner().fit(LOGITS[:, :2], NUMBERS)


@pytest.mark.parametrize(
    ("classes", "labels", "unknown"),
    [
        (None, np.where(NUMBERS == 1, 5, 7), "5, 7"),
        (None, np.where(NUMBERS == 1, -1, 0), "-1"),
        (["ant", "bee", "cow"], np.array(["ant", "bee", "dog"])[NUMBERS], "dog"),
        (["ant", "bee", "cow"], NUMBERS, "0, 1, 2"),
        ([0, 1, 2], np.array(["ant", "bee", "cow"])[NUMBERS], "ant, bee, cow"),
    ],
    ids=["large", "negative", "name", "numbers for names", "names for numbers"],
)
def test_labels_that_no_column_stands_for(classes: Any, labels: np.ndarray, unknown: str) -> None:
    with pytest.raises(EnergyAlignError, match=f"y has labels that no column stands for: {unknown}"):
        aligner(classes=classes).fit(LOGITS, labels)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["ant", "bee"], r"one label for each of the 3 columns of the logits, got shape \(2,\)"),
        (["ant"] * 3, "names a label twice"),
    ],
    ids=["too few", "twice"],
)
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_classes_that_do_not_fit_the_columns(classes: list[str], message: str, fit: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        getattr(aligner(classes=classes), fit)(LOGITS)


def test_labels_of_another_shape() -> None:
    with pytest.raises(EnergyAlignError, match=r"labels must have shape \(30,\), one per row of logits"):
        aligner().fit(LOGITS, NUMBERS[:-1])


def test_labels_of_the_same_number_say_nothing_of_the_training_data() -> None:
    assert aligner().fit(LOGITS, np.arange(30) % 3).shifts_.counts is None
    assert aligner().fit(LOGITS, NUMBERS).shifts_.counts.tolist() == [15, 10, 5]
    assert aligner().fit(LOGITS, NUMBERS, counts=[900, 90, 9]).shifts_.counts.tolist() == [900, 90, 9]


def test_lists_and_data_frames() -> None:
    for logits in (LOGITS.tolist(), pd.DataFrame(LOGITS, columns=list("abc"))):
        fitted = aligner().fit(logits, NUMBERS.tolist())
        np.testing.assert_allclose(fitted.transform(logits), EXPECTED.transform(LOGITS), atol=1e-12)
        np.testing.assert_allclose(fitted.predict_proba(logits), EXPECTED.predict_proba(LOGITS), atol=1e-12)
        np.testing.assert_array_equal(fitted.predict(logits), EXPECTED.predict(LOGITS))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_torch_tensors_in_and_out(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor(LOGITS, dtype=getattr(torch, dtype))
    rounded = logits.to(torch.float64).numpy()
    fitted = aligner().fit(logits, torch.tensor(NUMBERS))
    same = aligner().fit(rounded, NUMBERS)
    np.testing.assert_allclose(fitted.shifts_.values, same.shifts_.values, atol=1e-5)
    corrected, probabilities = fitted.transform(logits), fitted.predict_proba(logits)
    assert isinstance(corrected, torch.Tensor)
    assert isinstance(probabilities, torch.Tensor)
    assert corrected.dtype == logits.dtype
    np.testing.assert_allclose(corrected.double().numpy(), rounded + fitted.shifts_.values, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(probabilities.double().numpy().sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(fitted.predict(logits), fitted.classes_[corrected.argmax(dim=1).numpy()])


def test_torch_tensors_that_a_gradient_flows_through() -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor(LOGITS, requires_grad=True)
    np.testing.assert_allclose(aligner().fit(logits, NUMBERS).shifts_.values, EXPECTED.shifts_.values, atol=1e-12)


def test_torch_tensors_in_a_stream() -> None:
    torch = pytest.importorskip("torch")
    stream = aligner(estimator="lse").partial_fit(torch.tensor(LOGITS[:10])).partial_fit(LOGITS[10:])
    np.testing.assert_allclose(stream.shifts_.values, aligner(estimator="lse").fit(LOGITS).shifts_.values, atol=1e-12)


class TestNames:
    """Names are matched in any order."""

    names = np.array(["cow", "ant", "bee"])
    counts = pd.Series({"bee": 900, "cow": 90, "ant": 9})

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(LOGITS, columns=self.names)

    def test_counts_sorted_by_frequency(self) -> None:
        labels = pd.Series(NUMBERS)
        counts = pd.Series([2] * 9 + [0] * 5 + [1] * 2).value_counts()
        for each in (counts, counts.to_dict()):
            assert aligner().fit(LOGITS, labels, counts=each).shifts_.counts.tolist() == [5, 2, 9]

    @pytest.mark.parametrize("kind", [np.asarray, pd.Series, pd.Categorical])
    def test_columns_of_a_data_frame_name_the_classes(self, kind: Any) -> None:
        fitted = aligner().fit(self.frame(), kind(self.names[NUMBERS]), counts=self.counts)
        assert fitted.classes_.tolist() == ["cow", "ant", "bee"]
        assert fitted.shifts_.counts.tolist() == [90, 9, 900]
        expected = aligner().fit(LOGITS, NUMBERS, counts=[90, 9, 900])
        np.testing.assert_allclose(fitted.shifts_.values, expected.shifts_.values, atol=1e-12)
        assert fitted.predict(self.frame()).tolist() == self.names[expected.predict(LOGITS)].tolist()

    def test_columns_in_another_order_are_put_right(self) -> None:
        turned = self.frame()[["ant", "bee", "cow"]]
        fitted = aligner(classes=self.names).fit(turned, self.names[NUMBERS])
        expected = aligner(classes=self.names).fit(LOGITS, self.names[NUMBERS])
        np.testing.assert_allclose(fitted.shifts_.values, expected.shifts_.values, atol=1e-12)
        assert expected.predict(turned).tolist() == expected.predict(LOGITS).tolist()
        np.testing.assert_allclose(expected.transform(turned), expected.transform(LOGITS))

    def test_columns_of_other_classes_are_refused_with_both_lists(self) -> None:
        other = self.frame().rename(columns={"bee": "owl"})
        message = r"the columns of X: the classes are \[cow, ant, owl\], but the classes are \[cow, ant, bee\]"
        with pytest.raises(EnergyAlignError, match=message):
            aligner(classes=self.names).fit(other)
        with pytest.raises(EnergyAlignError, match=message):
            aligner().fit(self.frame()).predict(other)
        with pytest.raises(EnergyAlignError, match=r"stands for: bee\. The columns are \[cow, ant, owl\]"):
            aligner().fit(other, self.names[NUMBERS])

    def test_integer_columns_and_labels(self) -> None:
        frame = pd.DataFrame(LOGITS, columns=[2, 0, 1])
        fitted = aligner().fit(frame, np.array([2, 0, 1])[NUMBERS])
        assert fitted.classes_.tolist() == [2, 0, 1]
        np.testing.assert_allclose(fitted.shifts_.values, EXPECTED.shifts_.values, atol=1e-12)

    def test_class_numbers_beside_named_columns(self) -> None:
        fitted = aligner().fit(self.frame(), NUMBERS, counts=self.counts)
        assert fitted.classes_.tolist() == [0, 1, 2]
        assert fitted.shifts_.class_names == ("cow", "ant", "bee")
        assert fitted.shifts_.counts.tolist() == [90, 9, 900]

    @pytest.mark.parametrize("kind", [lambda labels: labels, pd.Series], ids=["categorical", "series"])
    def test_categories_have_an_order(self, kind: Any) -> None:
        categories = [*self.names, "owl"]  # which no sample has
        labels = kind(pd.Categorical(self.names[NUMBERS], categories=categories))
        fitted = aligner().fit(LOGITS, labels, counts=self.counts)
        assert fitted.classes_.tolist() == ["cow", "ant", "bee"]
        assert fitted.shifts_.counts.tolist() == [90, 9, 900]
        assert fitted.predict(LOGITS).tolist() == self.names[aligner().fit(
            LOGITS, NUMBERS, counts=[90, 9, 900]).predict(LOGITS)].tolist()  # fmt: skip
        four = np.column_stack([LOGITS, LOGITS[:, 0]])
        with pytest.warns(UntrustedEstimateWarning, match="no labelled evidence for class owl"):
            assert aligner().fit(four, labels, counts=[9, 8, 7, 6]).classes_.tolist() == categories

    def test_strings_without_names_of_columns_are_sorted(self) -> None:
        fitted = aligner().fit(LOGITS, self.names[NUMBERS], counts=self.counts)
        assert fitted.classes_.tolist() == ["ant", "bee", "cow"]
        assert fitted.shifts_.class_names == ("ant", "bee", "cow")
        assert fitted.shifts_.counts.tolist() == [9, 900, 90]

    def test_counts_name_the_classes_that_labels_leave_out(self) -> None:
        labels = np.where(NUMBERS == 1, "ant", "cow")
        fitted = aligner(estimator="prior").fit(LOGITS, labels, counts=self.counts)
        assert fitted.classes_.tolist() == ["ant", "bee", "cow"]

    def test_columns_of_one_name(self) -> None:
        with pytest.raises(EnergyAlignError, match="two columns of X have the same name"):
            aligner().fit(pd.DataFrame(LOGITS, columns=["a", "b", "a"]))

    def test_a_stream(self) -> None:
        stream = aligner(estimator="lse").partial_fit(self.frame()).partial_fit(self.frame()[["bee", "cow", "ant"]])
        same = aligner(estimator="lse").partial_fit(LOGITS).partial_fit(LOGITS)
        np.testing.assert_allclose(stream.shifts_.values, same.shifts_.values)


class TestMistakes:
    @pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame], ids=["array", "frame"])
    @pytest.mark.parametrize("dtype", [int, float, bool])
    def test_one_hot_labels_just_work(self, kind: Any, dtype: type) -> None:
        fitted = aligner().fit(LOGITS, kind(np.eye(3, dtype=dtype)[NUMBERS]))
        np.testing.assert_allclose(fitted.shifts_.values, EXPECTED.shifts_.values, atol=1e-12)

    def test_one_hot_labels_with_names(self) -> None:
        names = np.array(["cow", "ant", "bee"])
        fitted = aligner(classes=names).fit(LOGITS, pd.get_dummies(names[NUMBERS]))  # its columns are sorted
        np.testing.assert_allclose(fitted.shifts_.values, EXPECTED.shifts_.values, atol=1e-12)

    def test_one_hot_labels_that_are_numbers(self) -> None:
        fitted = aligner().fit(LOGITS, pd.get_dummies(NUMBERS + 1))
        assert fitted.classes_.tolist() == [1, 2, 3]

    @pytest.mark.parametrize("labels", [NUMBERS, np.array(["a", "b", "c"])[NUMBERS]], ids=["numbers", "names"])
    def test_swapped_arguments(self, labels: np.ndarray) -> None:
        with pytest.raises(EnergyAlignError, match=r"Give logits first, then labels"):
            aligner().fit(labels, LOGITS)

    def test_probabilities(self) -> None:
        probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
        with pytest.warns(UntrustedEstimateWarning, match="their logarithms were taken as logits"):
            fitted = aligner().fit(probabilities.round(4), NUMBERS)
        np.testing.assert_allclose(fitted.shifts_.values, EXPECTED.shifts_.values, atol=1e-2)
        assert np.mean(fitted.predict(probabilities) == EXPECTED.predict(LOGITS)) > 0.95
        with pytest.warns(UntrustedEstimateWarning, match="logarithms"):
            assert EXPECTED.predict(probabilities).tolist() == EXPECTED.predict(LOGITS).tolist()
        with pytest.warns(UntrustedEstimateWarning, match="logarithms"):
            aligner(estimator="prior").partial_fit(probabilities)


def test_minimum_recalls_are_of_labels() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([1, 2, 3], [60, 300, 1200])
    logits = 3 * np.eye(3)[labels - 1] + rng.normal(size=(1560, 3)) + np.log([60, 300, 1200])
    for name in (1, 1.0, "1"):
        fitted = EnergyAligner(evidence="held-out", scoring="accuracy", minimum_recall={name: 0.95}).fit(logits, labels)
        assert np.mean(logits[labels == 1].argmax(axis=1) == 0) < 0.9
        assert np.mean(fitted.predict(logits)[labels == 1] == 1) >= 0.95


def test_a_scorer_sees_the_labels_by_name_and_by_object() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([1, 2], [300, 100])
    logits = 2 * np.eye(2)[labels - 1] + rng.normal(size=(400, 2))
    by_name, by_object = (
        EnergyAligner(evidence="held-out", scoring=scoring).fit(logits, labels).shifts_
        for scoring in ("recall", get_scorer("recall"))
    )
    np.testing.assert_array_equal(by_name.values, by_object.values)
    assert by_name.values[0] > by_name.values[1]  # probability of label 1, scikit-learn's positive label
