"""`energyalign demo` as a user runs it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stopped_command import stopped

from energyalign.demo import run as demo_run
from energyalign.demo.part import DemoSection
from energyalign.demo.real_logits import real_logits
from energyalign.demo.run import DemoResult
from energyalign.report.tables.model import Cell, Column, Line, PaperTable


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    code, told = stopped(["demo", "--out", "demo"], tmp_path, signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "Stopped and saved. To resume:\n  energyalign demo --out demo" in told
    assert "Traceback" not in told


def table(title: str, name: str, overall: float) -> PaperTable:
    return PaperTable("made-up", title, (Column("overall"),), (Line(name, "", (Cell(overall),)),), ())


def test_it_prints_lines_then_all_tables_then_the_files(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(
        out: str, *, first_seed: int, say: Callable[[str], None], show: Callable[[DemoSection], None]
    ) -> DemoResult:
        show(real_logits())
        say(f"[training] {out} {first_seed}")
        sections = [
            DemoSection(
                "First part", [table("By head", "cosine", 87.4), table("By [size]", "few", 12.3)], ["It [says]."]
            ),
            DemoSection("Second part", [table("By step", "raw", 98.7)], []),
        ]
        return DemoResult(sections, (Path("here/report.html"), Path("here/rows.jsonl")))

    monkeypatch.setattr(demo_run, "run_demo", made)
    code, out, _ = run("demo", "--out", "here", "--seed", "7")
    assert code == 0
    real, _, trained = out.partition("[training]")
    words = ["[training]", *trained.split()]
    assert words[:3] == ["[training]", "here", "7"]
    lines = {line.split()[0]: line.split()[1:] for line in real.splitlines() if line.strip()}
    assert lines["raw"] == ["40.9", "*69.3", "39.3", "9.6"]
    assert {"logit-adjustment", "ea", "ea-auto"} < lines.keys()
    shown = [word for word in words if set(word) != {"─"}][3:]
    assert " ".join(shown) == (
        "First part By head method overall cosine 87.4 By [size] method overall few 12.3 It [says]. "
        "Second part By step method overall raw 98.7 "
        "Wrote here/report.html, here/rows.jsonl."
    )
