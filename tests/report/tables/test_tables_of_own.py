"""Tables of any runs: their lines, every step, every corrector."""

from __future__ import annotations

from dataclasses import replace

import pytest
from table_rows import DEFAULT_PLAN, long_tail_row, step_rows

from energyalign import EnergyAlignError
from energyalign.experiments.engine.row import Settings
from energyalign.report.tables import TABLES, Cell, PaperTable
from energyalign.report.tables.model import as_text
from energyalign.report.tables.own import describe_row


def texts(table: PaperTable) -> dict[str, list[float | None]]:
    return {line.method: [None if c.mean is None else round(c.mean, 6) for c in line.cells] for line in table.lines}


def test_long_tail_beside_the_paper() -> None:
    rows = [long_tail_row("ea", "cifar100-lt-100", overall, seed=seed) for seed, overall in enumerate((0.44, 0.46))]
    focal = [long_tail_row("focal", "cifar100-lt-100", overall, seed=k) for k, overall in enumerate((0.39, 0.41))]
    table = TABLES["longtail"].make([*rows, *focal])
    titles = [column.title for column in table.columns]
    assert titles == ["balanced", "many", "medium", "few", "seeds", "paper", "difference"]
    assert texts(table) == {
        "ea": [45.0, 65.0, 45.0, 15.0, 2.0, 45.3, -0.3],
        "focal": [40.0, 60.0, 40.0, 10.0, 2.0, 38.4, None],
    }
    # 1 above and 1 below the mean: the square root of 2, over n - 1 = 1.
    assert table.lines[0].cells[0] == Cell(45.0, pytest.approx(2**0.5), 2, best=True)
    assert [cell.best for cell in table.lines[0].cells] == [True] * 4 + [False] * 3
    assert "| ea | **45.0** ± 1.4 |" in table.render("markdown")
    assert "| 2 | 45.3 | -0.3 |" in table.render("markdown")


def test_csv_has_every_digit_and_says_whose_a_number_is() -> None:
    rows = [long_tail_row("ea", "cifar100-lt-100", overall, seed=seed) for seed, overall in enumerate((0.44, 0.4512))]
    lines = TABLES["longtail"].make(rows).render("csv").splitlines()
    assert lines[1] == "ea,ours,,balanced,44.56,0.792,2,False,False"
    assert lines[5:] == [
        "ea,ours,,seeds,2,,,False,False",
        "ea,paper,,paper,45.3,,,False,False",
        "ea,difference,,difference,-0.74,,,False,False",
    ]
    steps = [0.9, 0.8, 0.7, 0.6, 0.5121, 0.5, 0.5, 0.5, 0.5, 0.5]
    read = TABLES["incremental"].make(step_rows("ea", "cifar100-il-10", steps)).render("csv").splitlines()
    # (0.8 + 0.7 + 0.6 + 0.5121 + 5 x 0.5) / 9 is 0.5680111.
    assert read[1] == "ea,ours,,average,56.8011,,1,False,False"
    assert read[8:] == [
        "ea,ours,,seeds,1,,,False,False",
        "ea,paper,,paper,65.2,,,False,False",
        'ea,paper,,"paper, top-5",,,,False,False',
        "ea,difference,,difference,-8.3989,,,False,False",
    ]


def test_a_cell_of_our_own_has_no_columns_for_the_paper() -> None:
    table = TABLES["longtail"].make([long_tail_row("ea", "digits-lt-50", 0.9)])
    assert [column.title for column in table.columns] == ["balanced", "many", "medium", "few", "seeds"]
    assert table.notes == ()


def test_summary_of_steps() -> None:
    rows = [row for name in ("ea", "wa") for row in step_rows(name, "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5])]
    table = TABLES["incremental"].make(rows[:5] + rows[5:8])
    titles = [column.title for column in table.columns]
    assert titles == ["average", "with step 1", "last step", "old", "new", "forgetting", "top-5 average", "seeds"]
    # All groups have the overall accuracy: they lose 40, 30, 20 and 10.
    assert texts(table)["ea"] == [65.0, 70.0, 50.0, 40.0, 60.0, 25.0, 82.5, 1.0]
    assert table.notes[-1] == "wa is not finished: 3 of 5 steps of seed 0."
    lost = table.columns[titles.index("forgetting")]
    assert lost.better == "lower"


def test_every_step() -> None:
    rows = [
        row
        for seed, first in enumerate((0.9, 0.8))
        for row in step_rows("ea", "digits-il-5", [first, 0.6, 0.5, 0.4, 0.3][: 5 - seed], seed=seed)
    ]
    table = TABLES["steps"].make(rows)
    (line,) = table.lines
    assert texts(table) == {"ea": [85.0, 60.0, 50.0, 40.0, 30.0]}
    assert [cell.n for cell in line.cells] == [2, 2, 2, 2, 1]
    assert line.source_and_seeds == "ours (1-2 seeds)"
    assert table.notes == ("ea is not finished: 4 of 5 steps of seed 1.",)
    # The page shows the same.
    assert as_text(table)[1][0][1:] == ["85.0 ± 7.1", "60.0 ± 0.0", "50.0 ± 0.0", "40.0 ± 0.0", "30.0"]


def test_many_steps_stand_below_each_other() -> None:
    table = TABLES["steps"].make(step_rows("ea", "cifar100-il-20", [0.5] * 20))
    assert [(name, len(columns)) for name, columns in table.groups] == [("steps 1 to 10", 10), ("steps 11 to 20", 10)]
    assert table.stacked
    assert not TABLES["steps"].make(step_rows("ea", "cifar100-il-10", [0.5] * 10)).stacked


def test_trainings_and_correctors_of_a_long_tail() -> None:
    rows = [
        long_tail_row("ce", "digits-lt-50", 0.80),
        long_tail_row("ce", "digits-lt-50", 0.84, seed=1),
        replace(long_tail_row("ea", "digits-lt-50", 0.70), evidence=replace(DEFAULT_PLAN, policy="none")),
        long_tail_row("ea", "digits-lt-50", 0.90),
        long_tail_row("tau-norm", "digits-lt-50", 0.85),
    ]
    table = TABLES["matrix"].make(rows)
    assert [column.title for column in table.columns] == ["raw", "ea", "tau-norm"]
    assert texts(table) == {"ce": [82.0, 90.0, None], "ce (linear)": [None, None, 85.0]}
    assert [cell.n for cell in table.lines[0].cells] == [2, 1, None]
    assert table.notes == ("ce + ea: with evidence two x 50; rows with none x 50 are left out.",)


def test_rows_without_evidence_are_told_in_words() -> None:
    without = replace(long_tail_row("ea", "digits-lt-50", 0.90), evidence=None)
    crop = replace(without, evidence=replace(DEFAULT_PLAN, policy="crop-flip"))
    table = TABLES["matrix"].make([without, crop])
    assert table.notes == ("ce + ea: with evidence none; rows with crop-flip x 50 are left out.",)


def test_trainings_and_correctors_after_the_last_step() -> None:
    whole = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5])
    raw = [replace(row, corrector="raw", evidence=None, balanced=0.4) for row in whole]
    table = TABLES["matrix"].make([*whole, *raw])
    assert table.title.startswith("Top-1 accuracy (%) on digits-il-5 after step 5 of 5: ")
    assert texts(table) == {"distill (cosine, random:40, fed back: ea)": [40.0, 50.0]}
    assert [cell.best for cell in table.lines[0].cells] == [False, True]
    assert "* best of its line" in table.render("terminal")
    part = step_rows("distill", "digits-il-5", [0.9, 0.3])
    table = TABLES["matrix"].make([*whole, *raw, *part])
    assert "after step" not in table.title
    assert texts(table) == {
        "distill (cosine, random:40, fed back: ea), after step 5": [40.0, 50.0],
        "distill (cosine, random:40), after step 2": [30.0, None],
    }
    assert "distill is not finished: 2 of 5 steps of seed 0." in table.notes


def test_seeds_are_compared_after_the_last_step_that_all_have() -> None:
    rows = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7]) + step_rows("ea", "digits-il-5", [0.9, 0.6], seed=1)
    table = TABLES["matrix"].make(rows)
    assert "after step 2 of 5" in table.title
    assert texts(table) == {"distill (cosine, random:40, fed back: ea)": [70.0]}


def test_the_other_kind_of_runs_is_refused_with_the_table_for_it() -> None:
    long_tail, steps = [long_tail_row("ea", "digits-lt-50", 0.9)], step_rows("ea", "digits-il-5", [0.9])
    with pytest.raises(EnergyAlignError, match=r"got incremental runs: use energyalign table incremental\."):
        TABLES["longtail"].make(steps)
    for name in ("incremental", "steps"):
        with pytest.raises(EnergyAlignError, match=r"got long-tailed runs: use energyalign table longtail\."):
            TABLES[name].make(long_tail)
    assert TABLES["longtail"].make([*steps, *long_tail]) == TABLES["longtail"].make(long_tail)  # the fitting kind
    for name in ("incremental", "steps"):
        assert TABLES[name].make([*long_tail, *steps]) == TABLES[name].make(steps)
    for name in ("longtail", "incremental", "steps", "matrix"):
        with pytest.raises(EnergyAlignError, match=f"the table {name} needs at least one row, got none"):
            TABLES[name].make([])


def test_accuracy_and_calibration() -> None:
    seeds = [
        replace(long_tail_row("ea", "digits-lt-50", 0.8, seed=seed), ece=0.2, nll=nll, brier=0.5, macro_f1=0.7)
        for seed, nll in enumerate((1.5, 1.6))
    ]
    table = TABLES["metrics"].make([*seeds, long_tail_row("ce", "digits-lt-50", 0.5)])
    assert [column.title for column in table.columns] == [
        "balanced", "s.e.", "macro-F1", "ECE", "NLL", "Brier", "seeds",
    ]  # fmt: skip
    # Two classes with 5 test images each: (2 x 0.16 / 5) ** 0.5 / 2.
    assert texts(table)["ea"] == [80.0, pytest.approx(12.649111), 70.0, 20.0, 1.55, 0.5, 2]
    assert texts(table)["raw"][3:6] == [None, None, None]
    assert "1.550 ± 0.071" in table.render("markdown")
    assert max(map(len, table.render("terminal").splitlines())) <= 100
    steps = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5])
    begun = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.1], seed=1)
    assert texts(TABLES["metrics"].make([*steps, *begun]))["ea"][0] == 40.0  # after step 3, which both have
    assert texts(TABLES["metrics"].make(steps))["ea"][0] == 50.0


def test_what_stands_beside_where_the_test_set_is_not_balanced() -> None:
    unlike = {"test_counts": (9, 1), "balanced": 0.5, "macro_f1": 0.45}
    table = TABLES["longtail"].make([long_tail_row("ea", "digits-lt-50", 0.9, **unlike)])
    titles = [column.title for column in table.columns]
    assert titles == ["balanced", "macro-F1", "overall", "many", "medium", "few", "seeds"]
    assert texts(table)["ea"][:3] == [50.0, 45.0, 90.0]
    matrix = TABLES["matrix"].make([long_tail_row("ea", "digits-lt-50", 0.9, **unlike)])
    assert texts(matrix) == {"ce": [50.0]}
    rows = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5], test_counts=(9, 1), macro_f1=0.45)
    table = TABLES["incremental"].make(rows)
    assert [column.title for column in table.columns][-3:] == ["macro-F1", "overall", "seeds"]
    assert texts(table)["ea"][-3:] == [45.0, 50.0, 1.0]


def test_rows_in_words() -> None:
    row = long_tail_row("ea", "digits-lt-50", 0.9, seed=2)
    linear = replace(row, config=Settings({**row.config.values, "head": "linear"}))
    assert describe_row(linear) == "ce (linear) + ea, evidence two x 50, seed 2"
    assert describe_row(replace(row, corrector="raw", evidence=None)) == "ce + raw, seed 2"
    (*_, last) = step_rows("ea", "digits-il-5", [0.9, 0.8])
    assert describe_row(last) == "distill (cosine, random:40, fed back: ea) + ea, evidence two x 50, seed 0, step 2"
