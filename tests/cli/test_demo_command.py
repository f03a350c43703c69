"""`energyalign demo` as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "energyalign.cli.main", "demo", "--out", "demo"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list((tmp_path / "demo").glob("*/seed-0/checkpoints/*")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "Stopped and saved. To go on:\n  energyalign demo --out demo" in told
    assert "Traceback" not in told
