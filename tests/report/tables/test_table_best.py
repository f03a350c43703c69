"""Bold numbers: the best, and numbers not clearly worse."""

from __future__ import annotations

from itertools import permutations

from energyalign.report.tables import Cell, Column, Line, PaperTable
from energyalign.report.tables.best import about_best, are_best, with_best


def marks(table: PaperTable) -> list[list[bool]]:
    return [[cell.best for cell in line.cells] for line in with_best(table).lines]


def best_of(lines: list[tuple[str, list[float | None]]], columns: list[Column]) -> list[list[bool]]:
    made = tuple(Line(str(k), source, tuple(map(Cell, means))) for k, (source, means) in enumerate(lines))
    return marks(PaperTable("t", "t", tuple(columns), made))


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
    cells = tuple(map(Cell, (40.04, None, 39.96, 39.0)))
    columns = tuple(map(Column, "abcd"))
    assert marks(PaperTable("t", "t", columns, (Line("ce", "ours", cells),), best_of="line")) == [
        [True, False, True, False]
    ]
    grouped = (*columns[:2], *(Column(column.title, "another data set") for column in columns[2:]))
    cells = tuple(map(Cell, (40.0, 41.0, 50.0, 51.0)))
    assert marks(PaperTable("t", "t", grouped, (Line("ce", "ours", cells),), best_of="line")) == [
        [False, True, False, True]
    ]
    alone = (Line("ce", "ours", (Cell(40.0), Cell())),)
    assert marks(PaperTable("t", "t", columns[:2], alone, best_of="line")) == [[False, False]]


def over_seeds(*shares: float, first: int = 0) -> Cell:
    return Cell.over_seeds(dict(enumerate(shares, first)))


def test_numbers_whose_paired_difference_may_be_0_are_as_good() -> None:
    best, column = over_seeds(0.80, 0.84, 0.88), Column("a")
    # 2, 2.1 and 2.2 points lower by seed: mean 2.1, standard error 0.1 / sqrt(3), so 0 is far away at 4.3 errors.
    behind = over_seeds(0.78, 0.819, 0.858)
    # 6 lower, 1 higher, 2 lower: mean -2.33, standard error 2.03, interval from -11 to 6.4. Its mean is below
    # `behind`'s.
    unclear = over_seeds(0.74, 0.85, 0.86)
    assert behind.mean is not None
    assert unclear.mean is not None
    assert unclear.mean < behind.mean
    assert are_best([best, unclear], column) == [True, True]
    assert are_best([best, behind, unclear], column) == [True, False, True]
    assert are_best([best, behind, unclear], Column("a", better="lower")) == [True, True, True]
    assert are_best([best, behind], Column("a", better="lower")) == [False, True]
    assert are_best([best, behind, unclear], Column("a", better="")) == [False, False, False]


def test_rows_of_other_seeds_are_not_compared() -> None:
    three, also = over_seeds(0.8, 0.8, 0.8), over_seeds(0.7, 0.7, 0.7)
    one, another = over_seeds(0.95), over_seeds(0.90)
    assert are_best([three, also, one, another], Column("a")) == [False, False, True, False]
    low, lower = over_seeds(0.33), over_seeds(0.31)
    assert are_best([three, also, low, lower], Column("a")) == [True, False, False, False]
    assert are_best([three, also, one], Column("a")) == [True, False, False]
    elsewhere = over_seeds(0.9, 0.9, 0.9, first=3)
    assert are_best([three, also, elsewhere], Column("a")) == [True, False, False]


def test_ties_do_not_depend_on_the_order_of_lines() -> None:
    # The first two tie. The third is 2 and 2 points below the first, and 6 below and 2 above the second.
    cells = [over_seeds(0.80, 0.84), over_seeds(0.84, 0.80), over_seeds(0.78, 0.82), over_seeds(0.80, 0.84)]
    for order in permutations(range(4)):
        marked = are_best([cells[k] for k in order], Column("a"))
        assert {k for k, is_best in zip(order, marked, strict=True) if is_best} == {0, 1, 3}
    elsewhere = [over_seeds(0.80, 0.84, first=2), over_seeds(0.78, 0.82, first=2)]
    assert are_best([*cells[:2], *elsewhere], Column("a"))[::-1] == are_best(
        [*elsewhere[::-1], *cells[1::-1]], Column("a")
    )


def test_a_table_says_what_bold_means() -> None:
    def rule(*cells: Cell) -> str:
        lines = tuple(Line(str(k), "", (cell,)) for k, cell in enumerate(cells))
        return about_best(with_best(PaperTable("t", "t", (Column("a"),), lines)))

    assert rule(Cell(1.0)) == ""
    assert rule(Cell(1.0), Cell(2.0)) == "best of its column."
    assert rule(over_seeds(0.1), over_seeds(0.2)) == "best of its column."
    rule_over_seeds = (
        "best of its column, or not clearly worse than the best (paired t-test over the same seeds, 95 %)."
    )
    assert rule(over_seeds(0.1, 0.1, 0.1), over_seeds(0.2, 0.3, 0.3)) == rule_over_seeds
    assert rule(over_seeds(0.1, 0.1), over_seeds(0.2, 0.3)) == f"{rule_over_seeds} Two seeds are weak evidence."
