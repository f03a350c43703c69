"""`energyalign demo` as a user runs it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stopped_command import stopped

from energyalign.demo import run as demo_run
from energyalign.demo.part import Section, Table
from energyalign.demo.run import DemoResult


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    code, told = stopped(["demo", "--out", "demo"], tmp_path, signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "Stopped and saved. To go on:\n  energyalign demo --out demo" in told
    assert "Traceback" not in told


def test_it_prints_lines_then_all_tables_then_the_files(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(out: str, *, first_seed: int, say: Callable[[str], None]) -> DemoResult:
        say(f"[training] {out} {first_seed}")
        sections = [
            Section("First part", [Table(["head", "overall"], [["cosine", "87.4"]])], ["What [it] says."]),
            Section("Second part", [Table(["step", "1"], [["raw", "98.7"]], caption="By step")], []),
        ]
        return DemoResult(sections, (Path("here/report.html"), Path("here/rows.jsonl")))

    monkeypatch.setattr(demo_run, "run_demo", made)
    code, out, _ = run("demo", "--out", "here", "--seed", "7")
    words = out.split()
    assert code == 0
    assert words[:3] == ["[training]", "here", "7"]
    shown = [word for word in words if set(word) != {"─"}][3:]
    assert " ".join(shown) == (
        "First part head overall cosine 87.4 What [it] says. Second part By step step 1 raw 98.7 "
        "Wrote here/report.html, here/rows.jsonl."
    )
