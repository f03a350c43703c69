"""`energyalign compare` on synthetic runs: printed, written, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_run import made_up_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in (0, 1):
        made_up_run(tmp_path / "runs" / f"seed-{seed}", ["cat", "dog", "eel"], per_class=20, seed=seed)
    return tmp_path / "runs"


def test_rows_of_a_folder_in_three_ways(run, runs) -> None:
    code, printed, err = run("compare", runs, "--rows", "raw", "ea")
    assert (code, err) == (0, "")
    assert printed.startswith("B against A on made-up\n")
    assert "raw to ea, seed 0" in printed
    assert "over seeds" in printed
    assert "exact McNemar test" in printed
    assert run("compare", runs)[1] == printed
    _, text, _ = run("compare", f"{runs}:raw", f"{runs}:ea", "--format", "json")
    _, same, _ = run("compare", runs, "--format", "json")
    cells = [[line["cells"] for line in json.loads(each)["lines"]] for each in (text, same)]
    assert cells[0] == cells[1]
    assert len(cells[0]) == 4
    assert len(cells[0][0]) == len(json.loads(text)["columns"]) == 9


def test_a_part_of_it(run, runs) -> None:
    code, out, _ = run("compare", runs, "--where", "seed=1", "--columns", "p", "B - A", "--format", "json")
    assert code == 0
    table = json.loads(out)
    assert [column["title"] for column in table["columns"]] == ["p", "B - A"]
    assert [line["method"] for line in table["lines"]] == ["raw to ea, seed 1"]
    code, _, err = run("compare", runs, "--where", "corrector=wa")
    assert code == 2
    assert "no row has corrector=wa: choose corrector from ea, raw." in err


def test_a_name_given_twice_is_compared_once(run, runs) -> None:
    _, once, _ = run("compare", runs, runs, "--rows", "raw")
    assert run("compare", runs, runs, "--rows", "raw", "raw")[1] == once


def test_the_file_is_what_would_be_printed(run, runs, tmp_path) -> None:
    for form in ("terminal", "markdown", "latex", "csv", "json"):
        _, printed, _ = run("compare", runs, "--format", form)
        code, out, _ = run("compare", runs, "--format", form, "--out", tmp_path / "file")
        assert (code, out) == (0, f"Wrote {tmp_path / 'file'}.\n")
        assert (tmp_path / "file").read_text() == printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUNS:raw"], "expected two rows to compare"),
        (["RUNS:raw", "RUNS"], "expected two rows to compare"),
        (["RUNS:foo", "RUNS"], "has no row of foo: choose one of raw, ea."),
        (["RUNS:foo"], "has no row of foo: choose one of raw, ea."),
        (["RUNS", "--rows", "raw", "raw"], "expected two rows to compare"),
        (["RUNS:raw", "RUNS:ea", "--rows", "raw"], "expected two rows to compare"),
        (["RUNS", "--rows", "raw"], "expected two rows to compare"),
        (["RUNS", "--rows", "raw", "wa"], "expected a seed with rows of raw and wa, got rows of raw, ea"),
        (["RUNS:raw", "RUNS:wa"], "has no row of wa"),
        (["RUNS", "nowhere"], "nowhere: there is no such folder"),
        (["RUNS", "--out", "RUNS/seed-0/rows.jsonl"], "rows.jsonl"),
    ],
)
def test_refused(run, runs, words, message) -> None:
    before = (runs / "seed-0" / "rows.jsonl").read_bytes()
    code, out, err = run("compare", *(word.replace("RUNS", str(runs)) for word in words))
    assert (code, out) == (2, "")
    assert message in err
    assert (runs / "seed-0" / "rows.jsonl").read_bytes() == before
