"""Cells, lines and tables: means over seeds, and the number of seeds of a line."""

from __future__ import annotations

import math

import pytest

from energyalign.report.tables import Cell, Column, Line, PaperTable


def test_mean_and_deviation_over_seeds_in_per_cent() -> None:
    cell = Cell.over_seeds([0.40, 0.44, 0.48])
    # Squared differences from 44 are 16 + 0 + 16, over n - 1 = 2.
    assert cell.mean == pytest.approx(44.0)
    assert cell.deviation == pytest.approx(4.0)
    assert cell.n == 3


def test_what_is_missing_does_not_count() -> None:
    one = Cell.over_seeds([None, 0.4, math.nan])
    assert (one.mean, one.deviation, one.n) == (pytest.approx(40.0), None, 1)
    assert Cell.over_seeds([None, math.nan], off_paper=True) == Cell.over_seeds([]) == Cell()


@pytest.mark.parametrize(
    ("source", "counts", "label"),
    [
        ("paper", [None], "paper"),
        ("difference", [None], "difference"),
        ("ours", [None], "ours (0 seeds)"),
        ("ours", [1, 1], "ours (1 seed)"),
        ("ours", [3, None, 3], "ours (3 seeds)"),
        ("ours", [1, 3, 2], "ours (1-3 seeds)"),
    ],
)
def test_a_line_says_how_many_seeds_it_is_of(source: str, counts: list[int | None], label: str) -> None:
    assert Line("ea", source, tuple(Cell(1.0 if n else None, None, n) for n in counts)).source_and_seeds == label


def test_a_line_is_off_the_papers_setting_if_all_it_has_is() -> None:
    off, on, missing = Cell(1.0, off_paper=True), Cell(1.0), Cell()
    assert Line("ea", "ours", (off, missing)).off_paper
    assert not Line("ea", "ours", (off, on)).off_paper
    assert not Line("ea", "ours", (missing,)).off_paper


def test_neighbours_of_a_name_are_a_group() -> None:
    columns = tuple(Column(title, group) for title, group in ("1a", "2a", "3b", "4a"))
    assert PaperTable("t", "t", columns, ()).groups == [("a", [0, 1]), ("b", [2]), ("a", [3])]
