"""Tests of the benchmark of `auto`: one tiny cell, and the table of its scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.efficacy import CANDIDATES, Cell, Row, Scored, cut, main, measure, table_line, tabular_splits

GROUP = ("scikit-learn", "training", "plain")


def test_cut_is_a_long_tail_and_a_balanced_test_sample_apart() -> None:
    _, labels, train, test = cut("iris", 0)
    assert sorted(np.bincount(labels[train])) == [5, 12, 30]
    assert np.bincount(labels[test]).tolist() == [20, 20, 20]
    assert not np.intersect1d(train, test).size


def test_one_tiny_cell() -> None:
    splits = list(tabular_splits("iris", 0, ["LR"]))
    assert [split.cell.group[1:] for split in splits] == [
        (kind, base) for base in ("plain", "balanced") for kind in ("out-of-fold", "training")
    ]
    found = measure(splits[0])
    assert set(found) == {"raw", "auto", *CANDIDATES}
    assert all(0 <= score.accuracy <= 100 for score in found.values())


def test_rows_average_splits_and_tell_silent_losses() -> None:
    splits = [
        {"raw": Scored(80.0), "prior": Scored(86.0), "auto": Scored(70.0, warned=True)},
        {"raw": Scored(80.0), "prior": Scored(84.0), "lse": Scored(99.0), "auto": Scored(76.0)},
    ]
    row = Row.of(Cell(GROUP, "a"), splits)
    assert (row.raw, row.auto, row.best, row.best_name) == (80.0, 73.0, 85.0, "prior")
    assert row.lost
    assert row.silent
    assert not Row.of(Cell(GROUP, "a"), splits[:1]).silent
    assert table_line(GROUP, [row]) == (
        "| scikit-learn | training | plain | 1 | 80.0 | 73.0 | -7.00 | -7.0 | 1 (1) | -12.00 | -12.0 | 0 % |"
    )


def test_it_says_so_where_no_run_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "iris", "--models", "LR", "--splits", "1", "--jobs", "1", "--results", str(tmp_path)])
    out = capsys.readouterr().out
    assert out.startswith(f"No stored run with evidence in {tmp_path}")
    assert "| scikit-learn | out-of-fold | plain | 1 |" in out
