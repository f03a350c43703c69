"""Tests of the evidence benchmark: one small fit with each kind of evidence, and the summary."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.wrapper_evidence import Scored, main, summarise


def test_a_summary_has_the_mean_difference_and_its_standard_error() -> None:
    scores = [Scored(50.0, 60.0, 61.0, 6.0, 2.0), Scored(52.0, 62.0, 65.0, 8.0, 4.0)]
    assert summarise("LR", scores) == "| LR | 2 | 51.0 | 61.0 | +2.00 ± 1.00 | 7.0× | 3.0× |"


def test_tables_are_measured_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{k % 7},{k % 5},{'rare' if k % 6 == 0 else 'common'}" for k in range(90)] + ["1,2,alone"]
    (tmp_path / "some.csv").write_text("\n".join(rows))
    main(["--only", "iris", "--models", "LR", "--splits", "1", "--tables", str(tmp_path)])
    assert "| LR | 2 |" in capsys.readouterr().out
