"""Cells, names, shifts for rows, and rows in a file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.experiment.cells import mean_and_deviation
from energyalign.experiment.names import short_name
from energyalign.experiment.rows import Row, about_shifts, number_or_none, store_row
from energyalign.experiment.shift_fit import fit_for_row
from energyalign.train.run_directory import RunDirectory

COUNTS = np.array([100, 10, 1])


@pytest.mark.parametrize(
    ("values", "cell"),
    [
        ([], "-"),
        ([None], "-"),
        ([math.nan, None], "-"),
        ([0.4534], "45.3"),
        ([None, 0.4534, math.nan], "45.3"),
        ([0.44, 0.46], "45.0 ± 1.4"),
        ([0.44, None, 0.46], "45.0 ± 1.4"),
        ([-0.05], "-5.0"),
    ],
)
def test_cells(values: list[float | None], cell: str) -> None:
    assert mean_and_deviation(values) == cell


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("digits", "digits"),
        ("folder:/data/my images", "folder-my-images"),
        ("folder:/data/my images/", "folder-my-images"),
        ("folder:birds", "folder-birds"),
        ("parquet:a/b.c/train-*.parquet", "parquet-train-parquet"),
        ("folder:..", "folder"),
    ],
)
def test_names(dataset: str, name: str) -> None:
    assert short_name(dataset) == name


def unwanted() -> Evidence:
    raise AssertionError("evidence was drawn")


def test_the_prior_needs_no_evidence() -> None:
    shifts = fit_for_row("prior", "per-class", counts=COUNTS, evidence=unwanted)
    assert np.diff(shifts.values) == pytest.approx([math.log(10), math.log(10)])  # minus the log of the counts
    assert (shifts.energies, shifts.effective_samples) == (None, None)
    assert about_shifts(shifts)["energies_before"] is None


def test_nor_does_the_network_as_trained() -> None:
    assert fit_for_row("none", "per-class", counts=COUNTS, evidence=unwanted).values.tolist() == [0, 0, 0]


def test_others_look_at_it_and_their_doubts_go_to_the_row_without_a_warning() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 3)) + 5.0 * np.eye(3)
    evidence = Evidence.from_arrays(logits, np.arange(3), counts=COUNTS, kind="training")
    shifts = fit_for_row("lse", "per-class", counts=COUNTS, evidence=lambda: evidence)
    assert about_shifts(shifts)["concerns"]
    with pytest.warns(UntrustedEstimateWarning):
        expected = fit_shifts(evidence, estimator="lse", clusters="per-class")
    np.testing.assert_array_equal(shifts.values, expected.values)


def test_a_row_without_shifts_has_the_same_columns() -> None:
    shifts = fit_for_row("prior", "per-class", counts=COUNTS, evidence=unwanted)
    assert about_shifts(None).keys() == about_shifts(shifts).keys()
    assert about_shifts(None)["concerns"] == []


def test_numbers_that_json_does_not_have() -> None:
    assert number_or_none(math.nan) is None
    assert number_or_none(0.0) == 0.0


def key_of(row: Row) -> tuple[int, str]:
    return row["step"], row["corrector"]


def test_a_row_takes_the_place_of_the_one_with_its_key_and_leaves_the_others(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for step, corrector, value in ((2, "raw", 1), (1, "raw", 2), (2, "ea", 3), (2, "raw", 4)):
        store_row(run, {"step": step, "corrector": corrector, "value": value}, key_of)
    assert [(*key_of(row), row["value"]) for row in run.read_rows()] == [(1, "raw", 2), (2, "ea", 3), (2, "raw", 4)]


@given(st.permutations([(step, corrector) for step in (1, 2) for corrector in ("ea", "raw")]))
def test_the_file_does_not_tell_in_which_order_rows_came(keys: list[tuple[int, str]]) -> None:
    run = InMemory()
    for step, corrector in keys:
        store_row(run, {"step": step, "corrector": corrector}, key_of)
    assert [key_of(row) for row in run.rows] == sorted(keys)


class InMemory(RunDirectory):
    """Rows without a file."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def read_rows(self) -> list[Row]:
        return self.rows

    def write_rows(self, rows: object) -> None:
        self.rows = list(rows)  # type: ignore[call-overload]
