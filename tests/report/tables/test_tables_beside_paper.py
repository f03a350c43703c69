"""The paper's tables: its printed numbers, our numbers, and the notes on both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from table_rows import DEFAULT_PLAN, long_tail_row, step_rows

from energyalign import EnergyAlignError
from energyalign.experiments.engine.row import Row, Settings
from energyalign.report.selection import make_part
from energyalign.report.tables import TABLES, Cell, PaperTable

OF_PAPER = {name: entry for name, entry in TABLES.items() if entry.cells}


def cells(table: PaperTable, method: str, source: str) -> list[Cell]:
    (line,) = (line for line in table.lines if (line.method, line.source) == (method, source))
    return list(line.cells)


def means(table: PaperTable, method: str, source: str) -> list[float | None]:
    return [None if cell.mean is None else round(cell.mean, 6) for cell in cells(table, method, source)]


def test_the_nine_tables_and_their_numbers() -> None:
    assert {name: entry.reference for name, entry in OF_PAPER.items()} == {
        "imagenet100-il-10": "Table 1 of the paper",
        "imagenet-il-10": "Table 2 of the paper",
        "inaturalist": "Table 3 of the paper",
        "imagenet-lt": "Table 4 of the paper",
        "cifar100-il-20": "Table 6 of the paper",
        "cifar100-il-10": "Table 7 of the paper",
        "cifar100-il-5": "Table 8 of the paper",
        "cifar100-il-2": "Table 9 of the paper",
        "cifar-lt": "Table 10 of the paper",
    }


def test_numbers_as_the_paper_prints_them() -> None:
    table = TABLES["cifar-lt"].make([])
    assert [column.title for column in table.columns] == ["100", "50", "10"] * 2
    assert means(table, "de-confound-tde", "paper") == [44.1, 50.3, 59.6, 80.6, 83.6, 88.5]
    assert means(table, "la-loss", "paper") == [43.9, None, None, 77.7, None, None]
    table = TABLES["inaturalist"].make([])
    assert [(c.group, c.title) for c in table.columns[:3]] == [("Many", "90"), ("Many", "200"), ("Medium", "90")]
    assert means(table, "ea", "paper") == [70.1, 73.0, 70.1, 71.0, 69.5, 69.1, 69.8, 70.4]
    assert [cell.deviation for cell in cells(table, "ea", "paper")] == [0.6, 0.1, 0.2, 0.1, 0.3, 0.3, 0.0, 0.1]
    assert means(table, "ldam-drw", "paper") == [None] * 6 + [64.6, 66.1]
    table = TABLES["imagenet-lt"].make([])
    assert means(table, "crt", "paper") == [58.8, 61.8, 44.0, 46.2, 26.1, 27.4, 47.3, 49.6]
    assert [cell.deviation for cell in cells(table, "ea", "paper")] == [0.6, 0.6, 0.4, 0.2, 1.1, 0.9, 0.3, 0.1]
    table = TABLES["cifar100-il-5"].make([])
    assert means(table, "bic", "paper") == [84.0, 74.7, 67.9, 61.3, 56.7, 65.1]
    table = TABLES["imagenet-il-10"].make([])
    assert [column.title for column in table.columns] == [*map(str, range(1, 11)), "Avg"] * 2
    assert [column.group for column in table.columns] == ["top-5"] * 11 + ["top-1"] * 11
    assert means(table, "il2m", "paper") == [
        *[None] * 10, 78.3, None, 74.2, 68.8, 62.4, 56.4, 53.3, 52.1, 48.8, 47.6, 43.6, 56.4
    ]  # fmt: skip
    deviations = [cell.deviation for cell in cells(table, "ea", "paper")]
    assert deviations[:11] == [0.3, 0.1, 0.1, 0.1, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1, 0.0]
    assert deviations[11:] == [0.3, 0.5, 0.3, 0.2, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]


def test_methods_stand_in_the_papers_order() -> None:
    methods = list(dict.fromkeys(line.method for line in TABLES["imagenet-lt"].make([]).lines))
    assert methods == [
        "focal", "oltr", "decouple-oltr", "ncm", "crt", "tau-norm", "lws", "capsule", "de-confound", "cosine-tde",
        "capsule-tde", "de-confound-tde", "la-loss", "la-loss-ldam", "la-post-hoc", "ea",
    ]  # fmt: skip


def test_the_papers_bold() -> None:
    # As in the paper, except that it has no bold numbers in first steps, where nothing is incremental.
    table = TABLES["cifar100-il-5"].make([])
    bold = {line.method: [cell.best for cell in line.cells[1:]] for line in table.lines if line.source == "paper"}
    no = [False] * 5
    assert bold == {
        "lwf": no, "icarl": no, "eeil": no, "bic": no,
        "wa": [False, False, True, True, True], "ea": [True, True, False, True, True],
    }  # fmt: skip


@pytest.mark.parametrize("name", OF_PAPER)
def test_what_was_not_run_has_the_line_of_the_paper_only(name: str) -> None:
    table = OF_PAPER[name].make([])
    assert [line.source for line in table.lines] == ["paper"] * len({line.method for line in table.lines})
    assert len(table.notes) == 1
    assert "quotes its methods other than ea from papers" in table.notes[0]


def test_ours_and_the_difference_on_a_long_tail() -> None:
    rows = [long_tail_row("ea", "inaturalist-90", overall, seed=seed) for seed, overall in enumerate((0.68, 0.72))]
    table = TABLES["inaturalist"].make([*rows, rows[0]])  # a seed counts once
    # Many, medium and few are set to overall + 20, + 0, - 30.
    assert means(table, "ea", "ours") == [90.0, None, 70.0, None, 40.0, None, 70.0, None]
    assert means(table, "ea", "difference") == [19.9, None, -0.1, None, -29.5, None, 0.2, None]
    overall = cells(table, "ea", "ours")[6]
    assert overall.deviation == pytest.approx(4 / 2**0.5)
    assert (overall.n, overall.off_paper, overall.best) == (2, False, False)  # nothing to be better than
    assert len(table.notes) == 1


def test_the_average_leaves_out_the_first_step() -> None:
    curves = [(0, [0.9, 0.8, 0.7, 0.6, 0.5]), (1, [0.7, 0.6, 0.5, 0.4, 0.3])]
    rows = [row for seed, curve in curves for row in step_rows("ea", "cifar100-il-5", curve, seed=seed)]
    table = TABLES["cifar100-il-5"].make(rows)
    assert means(table, "ea", "ours") == [80.0, 70.0, 60.0, 50.0, 40.0, 55.0]
    # 82.3, 75.6, 69.1, 62.6, 59.2; Avg 66.6
    assert means(table, "ea", "difference") == [-2.3, -5.6, -9.1, -12.6, -19.2, -11.6]
    assert cells(table, "ea", "ours")[-1].deviation == pytest.approx(20 / 2**0.5)


def test_top_5_and_top_1() -> None:
    table = TABLES["imagenet100-il-10"].make(step_rows("wa", "imagenet100-il-10", [0.9] + [0.6] * 9))
    assert means(table, "wa", "ours") == [95.0] + [80.0] * 10 + [90.0] + [60.0] * 10
    # The paper has 90.2 and 68.8.
    difference = means(table, "wa", "difference")
    assert (difference[10], difference[21]) == (-10.2, -8.8)


def test_a_run_that_is_not_finished_has_no_average() -> None:
    part = step_rows("ea", "cifar100-il-5", [0.9, 0.8, 0.7], seed=1)
    table = TABLES["cifar100-il-5"].make(part)
    assert means(table, "ea", "ours") == [90.0, 80.0, 70.0, None, None, None]
    assert means(table, "ea", "difference") == [7.7, 4.4, 0.9, None, None, None]
    whole = step_rows("ea", "cifar100-il-5", [0.9, 0.6, 0.5, 0.4, 0.3])
    table = TABLES["cifar100-il-5"].make([*part, *whole])
    assert means(table, "ea", "ours") == [90.0, 70.0, 60.0, 40.0, 30.0, 45.0]
    assert [cell.n for cell in cells(table, "ea", "ours")] == [2, 2, 2, 1, 1, 1]


def test_methods_that_the_paper_does_not_have_follow_with_one_line() -> None:
    rows = [row for name in ("distill", "ea") for row in step_rows(name, "cifar100-il-2", [0.8, 0.6])]
    table = TABLES["cifar100-il-2"].make(rows)
    assert [(line.method, line.source) for line in table.lines[-4:]] == [
        ("ea", "paper"), ("ea", "ours"), ("ea", "difference"), ("distill", "ours"),
    ]  # fmt: skip
    assert all(cell.best for cell in cells(table, "ea", "ours") + cells(table, "distill", "ours"))  # a tie


def test_another_setting_is_marked_and_told() -> None:
    rows = [long_tail_row("ea", "cifar100-lt-100", 0.4, epochs=8), long_tail_row("ea", "cifar10-lt-50", 0.8)]
    table = TABLES["cifar-lt"].make(rows)
    for source in ("ours", "difference"):
        assert [cell.off_paper for cell in cells(table, "ea", source)] == [True] + [False] * 5
    assert not any(cell.off_paper for cell in cells(table, "ea", "paper"))
    assert table.notes[0] == "† not the paper's setting: recipe.epochs is 8, in the paper 200."


def test_several_settings_are_told_with_names() -> None:
    other = "cifar100-lt-50"
    rows = [long_tail_row(name, "cifar100-lt-100", 0.4, epochs=8) for name in ("ea", "focal", "ce")]
    rows += [long_tail_row(name, other, 0.4, epochs=9) for name in ("ea", "ce")]
    rows += [long_tail_row("mixup", "cifar100-lt-100", 0.4, epochs=7)]
    assert TABLES["cifar-lt"].make(rows).notes[:3] == (
        "† not the paper's setting, except as noted below: recipe.epochs is 8, in the paper 200.",
        "† not the paper's setting for all on cifar100-lt-50: recipe.epochs is 9, in the paper 200.",
        "† not the paper's setting for mixup on cifar100-lt-100: recipe.epochs is 7, in the paper 200.",
    )


def test_a_setting_of_several_differences_and_other_memories() -> None:
    rows = step_rows("ea", "cifar100-il-2", [0.8, 0.6], memory="random:200")
    of_paper = rows[0].config.values
    other = Settings({**of_paper, "backbone": "resnet8", "memory": {**of_paper["memory"], "total": 200}})
    rows = [replace(row, config=other) for row in rows]
    table = TABLES["cifar100-il-2"].make(rows)
    assert means(table, "ea", "ours") == [80.0, 60.0, 60.0]
    assert set(table.notes[0].removeprefix("† not the paper's setting: ").rstrip(".").split("; ")) == {
        "memory.total is 200, in the paper 2000", "backbone is resnet8, in the paper resnet32",
    }  # fmt: skip


def with_plan(rows: list[Row], **plan: Any) -> list[Row]:
    return [replace(row, evidence=replace(DEFAULT_PLAN, **plan)) for row in rows]


def test_one_kind_of_evidence_is_taken_and_the_others_are_named() -> None:
    ea = [long_tail_row("ea", "cifar100-lt-100", 0.45)]
    other = with_plan([long_tail_row("ea", "cifar100-lt-100", 0.30)], policy="none")
    table = TABLES["cifar-lt"].make([*other, *ea])
    assert means(table, "ea", "ours")[0] == 45.0
    assert table.notes[0] == "ea: with evidence two x 50; energyalign table longtail also shows none x 50."
    assert (
        TABLES["cifar-lt"].make(other).notes[0]
        == "† not the paper's setting: evidence.policy is none, in the paper two."
    )


def test_notes_are_on_the_rows_shown_each_once_with_sizes_by_number() -> None:
    sizes = {"cifar100-lt-100": (5, 100, 20), "cifar10-lt-100": (10, 5)}
    rows = []
    for method in ("ea", "ea-shrunk"):
        for cell, others in sizes.items():
            row = replace(long_tail_row("ea", cell, 0.4), corrector=method)
            rows += [row, *(kept for n in others for kept in with_plan([row], per_class=n, policy="one"))]
    rows.append(long_tail_row("ce", "cifar100-lt-100", 0.4, epochs=3))
    plans = "with evidence two x 50; energyalign table longtail also shows one x 5, one x 10, one x 20, one x 100."
    assert f"ea, ce + ea-shrunk: {plans}" in TABLES["cifar-lt"].make(rows).notes
    part = make_part(TABLES["cifar-lt"], rows, ["ea"])
    assert part.notes[:-1] == (f"ea: {plans}",)
    assert {line.method for line in part.lines} == {"ea"}


def test_a_learner_of_ones_own_is_not_the_papers() -> None:
    row = replace(long_tail_row("ce", "cifar100-lt-100", 0.4), learner="mine")
    table = TABLES["cifar-lt"].make([row])
    assert cells(table, "mine + raw", "ours")[0].off_paper
    assert table.notes[0] == "† not the paper's setting: learner is mine, in the paper none."


@pytest.mark.parametrize(
    ("table", "cell", "fitting"),
    [
        ("cifar-lt", "imagenet-lt-resnet50", "imagenet-lt"),
        ("cifar100-il-10", "cifar10-lt-50", "cifar-lt"),
        ("cifar-lt", "digits-lt-50", "longtail"),
    ],
)
def test_runs_of_another_table_are_sent_there(table: str, cell: str, fitting: str) -> None:
    with pytest.raises(EnergyAlignError, match=rf"table {table} .*, got {cell}: use energyalign table {fitting}\."):
        TABLES[table].make([long_tail_row("ea", cell, 0.4)])


def test_runs_in_steps_are_sent_to_their_own_table() -> None:
    for cell, fitting in (("cifar100-il-5", "cifar100-il-5"), ("digits-il-5", "incremental")):
        with pytest.raises(EnergyAlignError, match=rf"use energyalign table {fitting}\."):
            TABLES["cifar100-il-2"].make(step_rows("ea", cell, [0.8, 0.6]))


def test_rows_of_cells_that_the_table_lacks_are_left_out() -> None:
    own, other = long_tail_row("ea", "cifar100-lt-100", 0.4), step_rows("ea", "cifar100-il-5", [0.8, 0.6])
    assert TABLES["cifar-lt"].make([*other, own]) == TABLES["cifar-lt"].make([own])


def test_methods_that_the_paper_does_not_have_come_last_in_the_order_of_other_tables() -> None:
    ea, raw = long_tail_row("ea", "cifar100-lt-100", 0.4), long_tail_row("ce", "cifar10-lt-100", 0.4)
    rows = [*(replace(ea, corrector=f"ea-M{m}") for m in (16, 2)), replace(raw, corrector="ea-M4"), raw]
    methods = list(dict.fromkeys(line.method for line in TABLES["cifar-lt"].make(rows).lines))
    assert methods[-4:] == ["ce", "ce + ea-M2", "ce + ea-M4", "ce + ea-M16"]
    assert methods[0] == "focal"
