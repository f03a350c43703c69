"""`energyalign table` on two short real runs: printed, written, refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from digits_run import run_rows
from incremental_run import digits_config, run_digits

from energyalign.cli import table
from energyalign.experiments.incremental.learners import find_learner
from energyalign.report.tables.formats import FORMATS


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Train a long-tailed run and one in two steps, in neighbouring folders."""
    folder = tmp_path_factory.mktemp("runs")
    run_rows(["ce", "ea"], folder / "longtail", epochs=1)
    config = digits_config(find_learner("fine-tune"), epochs=1, n_steps=2)
    run_digits(folder / "steps", config, "raw", "logit-adjustment", per_class=10)
    return folder


def rows_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_a_long_tailed_run(run, runs):
    code, out, err = run("table", "longtail", runs / "longtail")
    assert (code, err) == (0, "")
    rows = rows_of(runs / "longtail")
    assert len(rows) == 2
    printed = [line.replace("*", " ").split() for line in out.splitlines()]  # bold is an asterisk in plain text
    assert ["method", "balanced", "many", "medium", "few", "seeds"] in printed
    for row in rows:
        accuracies = [f"{100 * row[column]:.1f}" for column in ("balanced", "many", "medium", "few")]
        assert [row["corrector"], *accuracies, "1"] in printed


def test_a_run_in_steps(run, runs):
    code, out, err = run("table", "steps", runs / "steps", "--format", "csv")
    assert (code, err) == (0, "")
    rows = rows_of(runs / "steps")
    read = {(row["method"], row["column"]): float(row["mean"]) for row in csv.DictReader(out.splitlines())}
    assert len(read) == len(rows) == 4
    for row in rows:
        assert read[row["corrector"], str(row["step"])] == pytest.approx(100 * row["balanced"], abs=1e-4)
    code, out, _ = run("table", "incremental", runs / "steps", "--format", "markdown")
    assert code == 0
    assert "| method | average | with step 1 | last step |" in out


def test_folders_with_both_kinds_of_runs(run, runs):
    for name, kind in (("longtail", "longtail"), ("steps", "steps")):
        assert run("table", name, runs) == run("table", name, runs / kind)


def test_a_part_of_it(run, runs):
    rows = {row["corrector"]: row for row in rows_of(runs / "longtail")}
    code, out, _ = run(
        "table", "longtail", runs / "longtail", "--columns", "few", "bal*", "--rows", "raw", "ea", "--where", "seed=0",
        "--where", "learner=ce", "--per-seed", "--format", "csv",
    )  # fmt: skip
    assert code == 0
    read = list(csv.DictReader(out.splitlines()))
    assert [list(line) for line in read] == [["method", "seed", "few", "balanced"]] * 2
    assert [(line["method"], line["seed"]) for line in read] == [("raw", "0"), ("ea", "0")]
    for line in read:
        assert float(line["balanced"]) == pytest.approx(100 * rows[line["method"]]["balanced"], abs=1e-4)


@pytest.mark.parametrize(("form", "start"), [
    ("terminal", "Top-1 accuracy (%) on digits-lt-50"), ("markdown", "**Top-1 accuracy (%)"),
    ("latex", "% needs"), ("csv", "method,source,"), ("json", "{\n \"name\": \"matrix\""),
])  # fmt: skip
def test_the_file_is_what_would_be_printed(run, runs, tmp_path, form, start):
    _, printed, _ = run("table", "matrix", runs / "longtail", "--format", form)
    file = tmp_path / "table.txt"
    code, out, _ = run("table", "matrix", runs / "longtail", "--format", form, "--out", file)
    assert (code, out) == (0, f"Wrote {file}.\n")
    assert file.read_text() == printed
    assert printed.startswith(start)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["table-of-mine", "longtail"], "unknown table 'table-of-mine': choose one of imagenet100-il-10, "),
        (["cifar-lt", "longtail"], "cifar10-lt-10, got digits-lt-50: use energyalign table longtail"),
        (["matrix", "longtail", "steps"], "must be of long-tailed or of incremental runs, got both"),
        (["longtail", "longtail", "--rows", "wa"], "no row of the table longtail matches 'wa': choose from raw, ea."),
        (
            ["matrix", "longtail", "--columns", "ece"],
            "matches 'ece': choose from raw, ea.",
        ),
        (["longtail", "longtail", "--where", "seed=3"], "no row has seed=3: choose seed from 0."),
        (["longtail", "longtail", "--where", "sed=0"], "unknown key 'sed': choose one of cell, dataset, method, "),
        (["longtail", "longtail", "--where", "seed=0", "steps"], "must be KEY=VALUE, such as seed=0, got 'steps'"),
        (["matrix", "nowhere"], "there is no such folder"),
        (["matrix", "longtail", "--out", "nowhere/table.tex"], "there is no folder nowhere"),
    ],
    ids=["name", "cell", "cells", "row", "column", "value", "key", "folder last", "folder", "out"],
)
def test_what_is_refused(run, runs, monkeypatch, arguments, problem):
    monkeypatch.chdir(runs)
    code, out, err = run("table", *arguments)
    assert (code, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_every_format_can_be_asked_for():
    assert list(FORMATS) == list(table._FORMATS)


def test_list_tables_has_the_papers_numbers(run):
    code, out, _ = run("list", "tables")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert lines["cifar-lt"].rstrip().endswith("Table 10 of the paper")
    assert "every corrector" in lines["matrix"]


def test_help_has_examples(run, capsys):
    with pytest.raises(SystemExit) as stopped:
        run("table", "--help")
    assert stopped.value.code == 0
    assert "energyalign table cifar-lt" in capsys.readouterr().out
