"""Numbers per class are matched by name, or by position if either side has no names."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.names import counts_by_class, find_class, table_by_class

WORDS = pd.Series(["dog"] * 9 + ["ant"] * 5 + ["cow"] * 2)  # by frequency: dog, ant, cow
NUMBERS = pd.Series([2] * 9 + [0] * 5 + [1] * 2)


def shapes_of(labels: pd.Series) -> list[Any]:
    """Return the same counts in all supported types."""
    counts = labels.value_counts()
    return [
        counts,
        counts.to_dict(),
        Counter(labels),
        counts.to_frame(),
        counts.reset_index(),
        counts.to_frame().T,
        labels.to_frame("y").value_counts(),
    ]


@pytest.mark.parametrize("shape", range(7))
@pytest.mark.parametrize("columns", [["ant", "cow", "dog"], ["cow", "dog", "ant"]], ids=str)
def test_names_are_matched_in_any_order(shape: int, columns: list[str]) -> None:
    values, names = counts_by_class(shapes_of(WORDS)[shape], columns, 3)
    assert dict(zip(columns, np.asarray(values, dtype=float), strict=True)) == {"dog": 9, "ant": 5, "cow": 2}
    assert names == tuple(columns)


@pytest.mark.parametrize("shape", range(7))
@pytest.mark.parametrize("columns", [None, ["x", "y", "z"], [0, 1, 2]], ids=str)
def test_class_numbers_are_names(shape: int, columns: Any) -> None:
    values, names = counts_by_class(shapes_of(NUMBERS)[shape], columns, 3)
    assert np.asarray(values, dtype=float).tolist() == [5, 2, 9]
    assert names == (None if columns is None else tuple(map(str, columns)))


def test_columns_that_are_numbers_are_matched_as_names() -> None:
    assert counts_by_class({0: 5, 1: 2, 2: 9}, [2, 0, 1], 3)[0].tolist() == [9, 5, 2]
    assert counts_by_class({"3": 9, "1": 5, "2": 2}, [1.0, 2.0, 3.0], 3)[0].tolist() == [5, 2, 9]
    assert counts_by_class({10: 9, 9: 5, 11: 2}, None, 3)[0].tolist() == [5, 9, 2]  # in the order of the numbers
    with pytest.raises(EnergyAlignError, match=r"\[0, 1, 2\], but the columns of the logits are \[1, 2, 3\]"):
        counts_by_class({0: 5, 1: 2, 2: 9}, [1, 2, 3], 3)


def test_a_dataset_numbers_its_classes() -> None:
    dataset = SimpleNamespace(classes=["dog", "ant", "cow"], targets=[0] * 9 + [1] * 5 + [2] * 2)
    values, names = counts_by_class(dataset, None, 3)
    assert (values.tolist(), names) == ([9, 5, 2], ("dog", "ant", "cow"))
    assert counts_by_class(dataset, ["ant", "cow", "dog"], 3)[0].tolist() == [5, 2, 9]
    assert counts_by_class(SimpleNamespace(targets=np.array([0, 2, 2])), ["a", "b", "c"], 3)[0].tolist() == [1, 0, 2]


def test_without_names_the_order_is_that_of_the_columns() -> None:
    for counts in ([9, 5, 2], (9, 5, 2), np.array([9, 5, 2])):
        assert counts_by_class(counts, ["dog", "ant", "cow"], 3) == (counts, ("dog", "ant", "cow"))


def test_names_of_columns_without_any_are_taken_if_sorted_and_refused_otherwise() -> None:
    assert counts_by_class({"ant": 5, "cow": 2}, None, 2)[1] == ("ant", "cow")
    for columns in (None, ["0", "1"]):
        with pytest.raises(EnergyAlignError, match=r"\[cow, ant\], in no sorted order.*classes= or class_names="):
            counts_by_class({"cow": 2, "ant": 5}, columns, 2)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (
            {"ant": 1, "cow": 2, "eel": 3},
            r"are \[ant, cow, eel\], but .* are \[ant, cow, dog\]: missing dog; unknown eel",
        ),
        ({"ant": 1, "cow": 2}, "missing dog; unknown none"),
        ({"ant": 1, "cow": 2, "dog": 3, "eel": 4}, "missing none; unknown eel"),
        (pd.Series([1, 2, 3, 4], index=["ant", "cow", "dog", "dog"]), "Name each class once"),
        (pd.DataFrame(np.ones((3, 3))), r"a table of shape \(3, 3\)"),
    ],
    ids=["other", "fewer", "more", "twice", "table"],
)
def test_a_mismatch_shows_both_lists(counts: Any, message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        counts_by_class(counts, ["ant", "cow", "dog"], 3)


def test_evidence_of_a_data_frame_and_of_labels_that_are_names() -> None:
    logits, labels = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 3
    columns = np.array(["dog", "cow", "ant"])
    expected = Evidence.from_arrays(logits, labels, class_names=columns.tolist())
    frame = pd.DataFrame(logits, columns=columns)
    for evidence in (
        Evidence.from_arrays(frame, pd.Categorical(columns[labels])),
        Evidence.from_arrays(frame[["ant", "dog", "cow"]], columns[labels], class_names=columns),
    ):
        assert evidence.class_names == ("dog", "cow", "ant")
        assert evidence.labels is not None
        assert evidence.labels.tolist() == labels.tolist()
        np.testing.assert_array_equal(evidence.free_energy.values, expected.free_energy.values)
    with pytest.raises(EnergyAlignError, match=r"among the columns .*\[dog, cow, ant\], got \[eel\]"):
        Evidence.from_arrays(frame, ["eel"] * 12)
    with pytest.raises(EnergyAlignError, match=r"or names with class_names="):
        Evidence.from_arrays(logits, columns[labels])


def test_evidence_and_target_take_names() -> None:
    logits = np.random.default_rng(0).normal(size=(12, 3))
    evidence = Evidence.from_arrays(logits, counts=WORDS.value_counts(), class_names=["dog", "cow", "ant"])
    assert evidence.counts is not None
    assert evidence.counts.tolist() == [9, 2, 5]
    assert (
        Evidence.from_arrays(logits, class_names=["dog", "cow", "ant"]).with_counts(Counter(WORDS)).counts is not None
    )
    prior = {"ant": 0.5, "cow": 0.3, "dog": 0.2}
    shifts = fit_shifts(evidence, estimator="prior", target_prior=prior)
    assert shifts.target_prior.tolist() == [0.2, 0.3, 0.5]
    np.testing.assert_allclose(shifts.with_target(None).with_target(prior).values, shifts.values)


def test_rows_and_columns_of_tables() -> None:
    names = ("dog", "ant", "cow")
    table = pd.DataFrame([[0, 1, 2], [3, 0, 4], [5, 6, 0]], index=names, columns=names)
    turned = table.loc[["ant", "cow", "dog"], ["cow", "dog", "ant"]]
    assert table_by_class(turned, names, source="costs", square=True).tolist() == table.to_numpy().tolist()
    assert table_by_class(turned, names, source="counts").tolist() == [[2, 0, 1], [4, 3, 0], [0, 5, 6]]
    plain = pd.DataFrame(table.to_numpy())
    assert table_by_class(plain, names, source="costs", square=True).tolist() == table.to_numpy().tolist()
    assert table_by_class({"cow": 1, "ant": 2, "dog": 3}, names, source="counts").tolist() == [3, 2, 1]
    assert table_by_class([[1, 2]], names, source="counts") == [[1, 2]]
    with pytest.raises(EnergyAlignError, match=r"columns of costs: the classes are \[dog, ant, eel\]"):
        table_by_class(table.rename(columns={"cow": "eel"}), names, source="costs", square=True)
    with pytest.raises(EnergyAlignError, match="costs must be an array, or a data frame"):
        table_by_class({"dog": [0, 1, 1]}, names, source="costs", square=True)


def test_a_class_is_found_by_name() -> None:
    assert find_class(2.0, ("3", "2"), "x") == 1
    with pytest.raises(EnergyAlignError, match="x: unknown class 0: choose one of 3, 2"):
        find_class(0, ("3", "2"), "x")


def test_costs_of_a_data_frame(simulate: Any) -> None:
    counts = np.array([300, 80, 40])
    logits, labels = simulate(counts, counts.tolist(), seed=0)
    names = ["cow", "ant", "bee"]
    evidence = Evidence.from_arrays(logits, labels, kind="held-out", class_names=names)
    costs = pd.DataFrame([[0, 1, 1], [2, 0, 2], [30, 30, 0]], index=names, columns=names)
    expected = fit_shifts(evidence, costs=costs.to_numpy()).values
    np.testing.assert_array_equal(fit_shifts(evidence, costs=costs.sort_index().sort_index(axis=1)).values, expected)
