"""`energyalign demo` as a user runs it."""

from __future__ import annotations

import signal
from pathlib import Path

from stopped_command import stopped


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    code, told = stopped(["demo", "--out", "demo"], tmp_path, signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "Stopped and saved. To go on:\n  energyalign demo --out demo" in told
    assert "Traceback" not in told
