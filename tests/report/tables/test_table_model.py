"""Cells, lines and tables: means over seeds, what a line says of its seeds, and which numbers are the best."""

from __future__ import annotations

import math

import pytest

from energyalign.report.tables import Cell, Column, Line, PaperTable
from energyalign.report.tables.model import with_best, with_best_of_line


def test_mean_and_deviation_over_seeds_in_per_cent() -> None:
    cell = Cell.over_seeds([0.40, 0.44, 0.48])
    # Around 44 the squares are 16 + 0 + 16, over n - 1 = 2.
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


def best_of(lines: list[tuple[str, list[float | None]]], columns: list[Column]) -> list[list[bool]]:
    made = [Line(str(k), source, tuple(map(Cell, means))) for k, (source, means) in enumerate(lines)]
    return [[cell.best for cell in line.cells] for line in with_best(made, columns)]


def test_the_best_of_each_source_and_column() -> None:
    lines = [("paper", [45.3, None]), ("paper", [44.1, 50.0]), ("ours", [40.0, 10.0]), ("ours", [41.0, 9.0])]
    assert best_of(lines, [Column("a"), Column("b")]) == [[True, False], [False, False], [False, True], [True, False]]


def test_numbers_that_are_printed_alike_are_equally_good() -> None:
    assert best_of([("ours", [40.04]), ("ours", [39.96]), ("ours", [39.94])], [Column("a")]) == [
        [True],
        [True],
        [False],
    ]


def test_differences_and_counts_have_no_best_and_forgetting_is_best_low() -> None:
    columns = [Column("forgetting", better="lower"), Column("seeds", better="", form=".0f")]
    assert best_of([("", [5.0, 3]), ("", [7.0, 4])], columns) == [[True, False], [False, False]]
    assert best_of([("difference", [1.0]), ("difference", [2.0])], [Column("a")]) == [[False], [False]]


def test_the_best_of_a_line() -> None:
    line = with_best_of_line(Line("ce", "ours", tuple(map(Cell, (40.04, None, 39.96, 39.0)))))
    assert [cell.best for cell in line.cells] == [True, False, True, False]
    assert not with_best_of_line(Line("ce", "ours", (Cell(40.0), Cell()))).cells[0].best
