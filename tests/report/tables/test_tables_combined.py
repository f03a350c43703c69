"""One table of several data sets, and one line for each seed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from table_rows import DEFAULT_PLAN, long_tail_row, step_rows

from energyalign import EnergyAlignError
from energyalign.experiments.engine.row import Row, Settings
from energyalign.report.selection import select_part
from energyalign.report.tables import TABLES, PaperTable


def numbers(table: PaperTable) -> dict[str, list[float | None]]:
    return {
        f"{line.method}, {line.source}".removesuffix(", "): [
            None if cell.mean is None else round(cell.mean, 6) for cell in line.cells
        ]
        for line in table.lines
    }


def test_data_sets_beside_each_other_by_number() -> None:
    rows = [
        *(long_tail_row("ce", "cifar10-lt-100", 0.7, seed=seed) for seed in (0, 1)),
        long_tail_row("focal", "cifar10-lt-100", 0.75),
        long_tail_row("ce", "cifar10-lt-10", 0.9),
        long_tail_row("la-loss", "cifar10-lt-10", 0.8),
    ]
    table = select_part(TABLES["longtail"].make(rows), columns=["balanced", "seeds"])
    assert [(column.group, column.title) for column in table.columns] == [
        ("cifar10-lt-10", "balanced"), ("cifar10-lt-10", "seeds"),
        ("cifar10-lt-100", "balanced"), ("cifar10-lt-100", "seeds"),
    ]  # fmt: skip
    assert numbers(table) == {
        "ce": [90.0, 1, 70.0, 2],
        "la-loss": [80.0, 1, None, None],
        "focal": [None, None, 75.0, 1],
    }
    assert table.title == "Top-1 accuracy (%) on cifar10-lt-10, cifar10-lt-100"
    assert [cell.best for cell in table.lines[0].cells] == [True, False, False, False]  # two seeds stand alone
    assert sum(note.startswith("The paper quotes") for note in table.notes) == 1
    heads = table.render("terminal").splitlines()[2].split()
    assert heads == ["cifar10-lt-10", "cifar10-lt-100"]


def test_names_are_the_same_for_all_data_sets() -> None:
    """Alone, a data set with a single training would name its lines by corrector, another one by method."""
    rows = [
        long_tail_row("ce", "digits-lt-50", 0.7),
        long_tail_row("ea", "digits-lt-50", 0.8),
        long_tail_row("ce", "cifar10-lt-10", 0.6),
        long_tail_row("focal", "cifar10-lt-10", 0.5),
    ]
    assert [line.method for line in TABLES["longtail"].make(rows).lines] == ["ce", "ea", "focal"]


def test_steps_of_several_data_sets() -> None:
    rows = step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5]) + step_rows("ea", "cifar100-il-2", [0.8, 0.4])
    steps = TABLES["steps"].make(rows)
    assert numbers(steps) == {"ea, ours": [80.0, 40.0, 90.0, 80.0, 70.0, 60.0, 50.0]}
    assert [group for group, _ in steps.groups] == ["cifar100-il-2", "digits-il-5"]
    matrix = TABLES["matrix"].make(rows)
    # The size of the memory depends on the data set.
    assert numbers(matrix) == {"distill (cosine, random, fed back: ea), ours": [40.0, 50.0]}
    unfinished = TABLES["incremental"].make([*rows[:3], *rows[5:]])
    assert "digits-il-5: ea is not finished: 3 of 5 steps of seed 0." in unfinished.notes


def test_both_kinds_of_runs_are_refused_where_both_fit() -> None:
    rows = [long_tail_row("ea", "digits-lt-50", 0.8), *step_rows("ea", "digits-il-5", [0.9])]
    for name in ("matrix", "metrics"):
        with pytest.raises(EnergyAlignError, match="must be of long-tailed or of incremental runs, got both"):
            TABLES[name].make(rows)


def test_a_line_for_each_seed() -> None:
    rows = [
        *(long_tail_row("ea", "cifar100-lt-100", 0.44 + 0.01 * seed, seed=seed) for seed in (10, 9)),
        long_tail_row("ce", "cifar100-lt-100", 0.4, seed=9),
    ]
    table = TABLES["longtail"].make(rows, per_seed=True)
    assert numbers(table) == {
        "ea, seed 9": [53.0, 73.0, 53.0, 23.0, 45.3, 7.7],
        "ea, seed 10": [54.0, 74.0, 54.0, 24.0, 45.3, 8.7],
        "raw, seed 9": [40.0, 60.0, 40.0, 10.0, None, None],
    }
    assert not any(cell.best for line in table.lines for cell in line.cells)
    assert table.render("csv").splitlines()[:3] == [
        "method,seed,balanced,many,medium,few,paper,difference",
        "raw,9,40.0,60.0,40.0,10.0,,",
        "ea,9,53.0,73.0,53.0,23.0,45.3,7.7",
    ]
    averages = TABLES["incremental"].make(step_rows("ea", "digits-il-5", [0.9, 0.8, 0.7, 0.6, 0.5]), per_seed=True)
    assert averages.render("csv").splitlines()[1].startswith("ea,0,65.0,70.0,50.0,")


def test_seeds_that_lack_a_corrector() -> None:
    rows = [long_tail_row("ce", "digits-lt-50", 0.7, seed=seed) for seed in (0, 1)]
    table = TABLES["matrix"].make([*rows, long_tail_row("ea", "digits-lt-50", 0.8, seed=1)], per_seed=True)
    assert numbers(table) == {"ce, seed 0": [70.0, None], "ce, seed 1": [70.0, 80.0]}


def test_the_papers_tables_have_no_line_for_a_seed() -> None:
    with pytest.raises(EnergyAlignError, match="cifar-lt cannot be shown per seed: use one of longtail, incremental"):
        TABLES["cifar-lt"].make([], per_seed=True)


def test_kinds_of_evidence_and_memories_by_number() -> None:
    plans = [replace(DEFAULT_PLAN, per_class=n) for n in (20, 200, 5)]
    rows = [replace(long_tail_row("ea", "digits-lt-50", 0.8), evidence=plan) for plan in plans]
    names = [line.method for line in TABLES["longtail"].make([long_tail_row("ce", "digits-lt-50", 0.8), *rows]).lines]
    assert names == ["raw", "ea, two x 5", "ea, two x 20", "ea, two x 200"]
    memories = [
        replace(row, memory=f"random:{n}", config=Settings({**row.config.values, "memory": {"total": n}}))
        for n in (20, 200, 5)
        for row in step_rows("ea", "digits-il-5", [0.9, 0.8])
    ]
    default = long_tail_row("ea", "digits-lt-50", 0.8)
    names = [line.method for line in TABLES["longtail"].make([*rows, default]).lines]
    assert names == ["ea", "ea, two x 5", "ea, two x 20", "ea, two x 200"]
    names = [line.method for line in TABLES["steps"].make(memories).lines]
    assert names == ["ea, random:5", "ea, random:20", "ea, random:200"]


def on_features(row: Row) -> Row:
    plan = replace(DEFAULT_PLAN, policy="mixup") if row.evidence else None
    return replace(
        row, cell="features-f", evidence=plan, config=Settings({**row.config.values, "dataset": "features:f.npz"})
    )


@pytest.mark.parametrize("in_steps", [False, True])
def test_the_default_evidence_of_images_and_of_features_share_a_line(in_steps: bool) -> None:
    rows: list[Row] = [long_tail_row(name, "digits-lt-50", 0.8) for name in ("ea", "ce")]
    if in_steps:
        (row,) = step_rows("ea", "digits-il-5", [0.9])
        rows = [row, replace(row, corrector="raw", evidence=None)]
    table = TABLES["incremental" if in_steps else "longtail"].make([*map(on_features, rows), *rows])
    assert [line.method for line in table.lines] == ["raw", "ea"]


def test_lines_have_one_order() -> None:
    correctors = ["ea-M16", "ea+ts", "ea-M2", "ea", "tau-norm", "raw", "raw+ts", "logit-adjustment", "ncm"]
    ordered = ["raw", "raw+ts", "logit-adjustment", "ea", "ea+ts", "tau-norm", "ncm", "ea-M2", "ea-M16"]
    raw = long_tail_row("ce", "digits-lt-50", 0.8)
    rows = [replace(raw, corrector=name) for name in correctors]
    for name in ("longtail", "metrics"):
        assert [line.method for line in TABLES[name].make(rows).lines] == ordered
    matrix = TABLES["matrix"].make([long_tail_row("ldam-drw", "digits-lt-50", 0.8), *rows])
    assert [column.title for column in matrix.columns] == ordered
    assert [line.method for line in matrix.lines] == ["ce", "ldam-drw"]
    # The first cell lacks some lines of the second.
    elsewhere = [replace(row, cell="digits-lt-200") for row in rows]
    assert [line.method for line in TABLES["longtail"].make([*rows[:3], *elsewhere]).lines] == ordered
