"""Selecting rows by their fields; unknown values are refused with the known ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from table_rows import long_tail_row, step_rows

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row, natural
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.selection import (
    conditions,
    make_part,
    parse_where,
    select_named,
    select_part,
    select_rows,
    select_runs,
    values_of,
)
from energyalign.report.tables import TABLES, Cell, Column, Line, PaperTable

CELL = "digits-lt-50"
ROWS = [
    long_tail_row("ce", CELL, 0.5, seed=0),
    long_tail_row("ce", CELL, 0.6, seed=1),
    long_tail_row("ea", CELL, 0.7, seed=0),
    long_tail_row("la-loss", CELL, 0.8, seed=10, epochs=3),
]


def chosen(*words: str) -> list[float]:
    return [row.balanced for row in select_rows(ROWS, parse_where(words))]


def test_every_row_without_conditions() -> None:
    assert select_rows(ROWS, {}) == tuple(ROWS)


@pytest.mark.parametrize(
    ("words", "accuracies"),
    [
        (["seed=0"], [0.5, 0.7]),
        (["seed=0", "seed=10"], [0.5, 0.7, 0.8]),
        (["seed=0", "corrector=ea"], [0.7]),
        (["method=ea"], [0.7]),
        (["learner=ce", "corrector=raw"], [0.5, 0.6]),
        (["method=la-*"], [0.8]),
        (["evidence=two x 50"], [0.7]),
        (["evidence=none", "seed=0"], [0.5]),
        (["epochs=3"], [0.8]),
        (["recipe.epochs=3.0"], [0.8]),
        (["imbalance=50", "seed=1"], [0.6]),
        (["cell=DIGITS*", "learner=la-loss"], [0.8]),
    ],
)
def test_conditions(words: list[str], accuracies: list[float]) -> None:
    assert chosen(*words) == accuracies


def test_from_python() -> None:
    assert conditions(seed=[0, 1], recipe__epochs=3, method="ce") == parse_where(
        ["seed=0", "seed=1", "recipe.epochs=3", "method=ce"]
    )


def test_rows_by_name(tmp_path: Path) -> None:
    runs = [StoredRun(tmp_path, row.config, [row]) for row in ROWS]

    def named(*names: str) -> list[float]:
        return [row.balanced for run in select_named(runs, names) for row in run.rows]

    assert named() == [0.5, 0.6, 0.7, 0.8]
    assert named("ea") == [0.7]
    assert named("raw") == [0.5, 0.6, 0.8]  # correctors and methods
    assert named("la-*", "ea") == [0.7, 0.8]
    with pytest.raises(EnergyAlignError, match=r"no row matches 'crt': choose from ce, ea, la-loss, raw\."):
        named("ea", "crt")


def test_rows_in_steps() -> None:
    rows = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5])
    assert [row.step for row in select_rows(rows, parse_where(["step=5", "step=2"]))] == [2, 5]
    assert values_of(rows[0])["memory"] == str(rows[0].memory)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed"], "must be KEY=VALUE, such as seed=0, got 'seed'. Give run folders first."),
        (["=0"], "got '=0'"),
        (["colour=red"], "unknown key 'colour': choose one of cell, dataset, method, "),
        (["seed=7"], "no row has seed=7: choose seed from 0, 1, 10."),
        (["corrector=ea", "seed=1", "seed=7"], "no row with corrector=ea has seed=1 or 7: choose seed from 0."),
    ],
)
def test_what_there_is_not(words: list[str], message: str) -> None:
    with pytest.raises(EnergyAlignError) as raised:
        chosen(*words)
    assert message in str(raised.value)


def test_runs_keep_the_rows_that_are_chosen() -> None:
    def run(*rows: Row) -> StoredRun:
        return StoredRun(Path("a run"), rows[0].config, list(rows))

    runs = [run(ROWS[0], ROWS[2]), run(ROWS[1])]
    assert [each.rows for each in select_runs(runs, parse_where(["seed=0", "method=ce"]))] == [[ROWS[0]]]
    assert [each.rows for each in select_runs(runs, {})] == [[ROWS[0], ROWS[2]], [ROWS[1]]]


def test_numbers_sort_as_numbers() -> None:
    names = ["lt-200", "lt-5", "7", "lt", "lt-20-b", "lt-20-a"]
    assert sorted(names, key=natural) == ["7", "lt", "lt-5", "lt-20-a", "lt-20-b", "lt-200"]


TABLE = PaperTable(
    "small",
    "t",
    (Column("100", "CIFAR-100-LT"), Column("50", "CIFAR-100-LT"), Column("100", "CIFAR-10-LT")),
    tuple(
        Line(name, source, tuple(map(Cell, means)))
        for name, means in {"ce": (1.0, 2.0, 3.0), "la-loss": (4.0, 1.0, 2.0), "la-post-hoc": (5.0, 6.0, 7.0)}.items()
        for source in ("paper", "ours")
    ),
)


def part(rows: list[str], columns: list[str]) -> tuple[list[str], list[str], list[list[float | None]]]:
    table = select_part(TABLE, rows, columns)
    lines = [line for line in table.lines if line.source == "ours"]
    return (
        [line.method for line in lines],
        [column.full_title for column in table.columns],
        [[cell.mean for cell in line.cells] for line in lines],
    )


def test_rows_of_a_table_in_the_order_asked_for() -> None:
    names, _, means = part(["LA-*", "ce"], [])
    assert (names, means[2]) == (["la-loss", "la-post-hoc", "ce"], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (["50", "100"], ["CIFAR-100-LT, 50", "CIFAR-100-LT, 100", "CIFAR-10-LT, 100"]),
        (["cifar-10-lt"], ["CIFAR-10-LT, 100"]),
        (["CIFAR-100-LT, 100"], ["CIFAR-100-LT, 100"]),
        (["5*", "50"], ["CIFAR-100-LT, 50"]),
    ],
)
def test_columns_by_title_group_or_both(columns: list[str], titles: list[str]) -> None:
    assert part([], columns)[1] == titles


def test_the_best_is_that_of_what_is_shown() -> None:
    table = select_part(TABLE, ["ce", "la-loss"], ["50"])
    assert [cell.best for line in table.lines for cell in line.cells] == [True, True, False, False]


def test_names_that_a_table_does_not_have() -> None:
    with pytest.raises(EnergyAlignError, match="no row of the table small matches 'x': choose from ce, la-loss, la-po"):
        select_part(TABLE, ["ce", "x"])
    with pytest.raises(EnergyAlignError, match=r"no column of the table small matches '7\*': choose from 100, 50\."):
        select_part(TABLE, columns=["7*"])


def test_columns_without_the_number_of_seeds_have_a_note_on_lines_with_fewer() -> None:
    rows = [long_tail_row("ea", CELL, 0.7, seed=0), *(long_tail_row("ce", CELL, 0.5, seed=seed) for seed in (0, 1))]
    table = TABLES["longtail"].make(rows)
    assert select_part(table, columns=["few"]).notes == ("Fewer than 2 seeds: ea (1 seed).",)
    assert select_part(table, columns=["few", "seeds"]).notes == select_part(table, ["raw"], ["few"]).notes == ()


@pytest.mark.parametrize(
    ("trainings", "names", "lines"),
    [
        (["ce"], ["ce", "ea"], ["raw", "ea"]),
        (["ce"], ["ce + ea", "ce + raw"], ["ea", "raw"]),
        (["ce"], ["ea*"], ["ea", "ea, two x 5"]),
        (["ce"], ["ce + ea, two x 5"], ["ea, two x 5"]),
        (["ce", "ldam-drw"], ["raw", "ea"], ["ce", "ldam-drw", "ea", "ldam-drw + ea"]),
        (["ce", "ldam-drw"], ["ldam-drw + raw", "ce + ea"], ["ldam-drw", "ea"]),
        (["ce", "ldam-drw"], ["ldam-drw", "ce"], ["ldam-drw", "ce"]),
    ],
)
def test_lines_have_the_same_names_in_every_table(trainings: list[str], names: list[str], lines: list[str]) -> None:
    rows = []
    for raw in (long_tail_row(name, CELL, 0.5) for name in trainings):
        plans = EvidencePlan(), EvidencePlan(5)
        rows += [raw, *(replace(raw, corrector="ea", evidence=plan) for plan in plans)]
    table = TABLES["longtail"].make(rows)
    assert [line.method for line in select_part(table, names).lines] == lines
    per_seed = TABLES["longtail"].make(rows, per_seed=True)
    assert [line.method for line in select_part(per_seed, names).lines] == lines
    runs = [StoredRun(Path("a run"), rows[0].config, rows)]
    assert select_named(runs, [name.removesuffix(", two x 5") for name in names])  # figures have these names too


def test_lines_in_steps_by_both_names() -> None:
    rows = step_rows("ea", "digits-il-5", [0.9, 0.8])
    rows += [replace(row, corrector="raw", evidence=None) for row in rows]
    table = TABLES["steps"].make(rows)
    assert [line.method for line in select_part(table, ["distill (cosine, random:40, fed back: ea) + raw"]).lines] == [
        "raw"
    ]
    other = TABLES["steps"].make([*rows, *step_rows("distill", "digits-il-5", [0.9, 0.8])])
    assert len(select_part(other, ["raw"]).lines) == 2


@pytest.mark.parametrize("per_seed", [False, True])
def test_columns_of_metrics_in_other_tables(per_seed: bool) -> None:
    measured = {"ece": 0.2, "nll": 1.5, "brier": 0.5, "macro_f1": 0.7}
    rows = [replace(long_tail_row("ea", CELL, 0.8), **measured), long_tail_row("ce", CELL, 0.6)]
    steps = [replace(row, ece=0.1 * row.step) for row in step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5])]
    asked = ["few", "ECE", "NLL", "macro-F1", "Brier"]
    part = make_part(TABLES["longtail"], [*rows, *steps], ["ea"], asked, per_seed=per_seed)
    assert [column.title for column in part.columns] == asked
    assert [[cell.mean for cell in line.cells[1:]] for line in part.lines] == [[20.0, 1.5, 70.0, 0.5]]
    (line,) = make_part(TABLES["incremental"], [*rows, *steps], [], ["average", "ECE"], per_seed=per_seed).lines
    assert [cell.mean for cell in line.cells] == [pytest.approx(65.0), pytest.approx(50.0)]


def test_columns_of_metrics_are_left_out_unless_named() -> None:
    rows = [long_tail_row("ea", CELL, 0.8), long_tail_row("ce", CELL, 0.6)]
    for patterns in ([], ["*"], ["m*", "seeds"]):
        assert make_part(TABLES["longtail"], rows, [], patterns).notes == ()
    with pytest.raises(EnergyAlignError, match=r"no column .* matches 'x': choose from balanced, .*, ECE, NLL, Brier"):
        make_part(TABLES["longtail"], rows, [], ["few", "x"])
