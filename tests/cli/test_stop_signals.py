"""SIGTERM and SIGHUP to a command: no temporary file is left, existing files stay, and nohup is respected."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.promise("A stopped command saves its state and leaves no temporary file", "signals")

COMMAND = [sys.executable, "-m", "energyalign.cli.main"]
LONGTAIL = "longtail digits --epochs 500 --accelerator cpu --corrector raw --out run"
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])


def start(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start the command in the folder, with a separate folder for temporary files."""
    (folder / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=environment, **{"stderr": subprocess.PIPE, **options}
    )


def wait_for(process: subprocess.Popen[bytes], folder: Path, pattern: str) -> None:
    """Wait until a file of this pattern exists."""
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def assert_interrupted(process: subprocess.Popen[bytes], folder: Path, number: int) -> None:
    process.send_signal(number)
    assert process.wait() == 128 + number
    assert process.stderr is not None
    assert process.stderr.read() == b"energyalign: interrupted; nothing was left half written.\n"
    assert list((folder / "tmp").iterdir()) == []
    assert list(folder.glob(".*.part")) == []


@BOTH
def test_fit_of_standard_input(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, "fit", "-", "--out", "shifts.json", stdin=subprocess.PIPE)
    wait_for(process, tmp_path, "tmp/energyalign-*")
    assert_interrupted(process, tmp_path, number)
    assert process.stdin is not None
    process.stdin.close()
    process.stderr.close()


@BOTH
def test_apply(tmp_path: Path, number: int) -> None:
    np.savetxt(tmp_path / "logits.csv", np.zeros((200_000, 4)), delimiter=",", fmt="%.1f")
    np.save(tmp_path / "few.npy", np.eye(4))
    (tmp_path / "corrected.csv").write_text("old")
    fitted = "fit few.npy --counts counts.json --estimator prior --quiet --out shifts.json"
    (tmp_path / "counts.json").write_text("[4, 3, 2, 1]")
    subprocess.run([*COMMAND, *fitted.split()], cwd=tmp_path, check=True, capture_output=True)
    process = start(tmp_path, "apply", "logits.csv", "--shifts", "shifts.json", "--out", "corrected.csv", "--quiet")
    wait_for(process, tmp_path, ".*.csv.part")
    assert_interrupted(process, tmp_path, number)
    process.stderr.close()
    assert (tmp_path / "corrected.csv").read_text() == "old"


@pytest.mark.faults
@BOTH
def test_longtail_saves(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, *LONGTAIL.split(), stdout=subprocess.DEVNULL)
    wait_for(process, tmp_path, "run/ce/seed-0/checkpoints/epoch-*")
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode == 128 + number
    assert b"Stopped and saved. To resume:" in told
    assert list(tmp_path.rglob(".*.part")) == []


@pytest.mark.faults
def test_longtail_saves_when_its_terminal_is_closed(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    process = start(
        tmp_path, *LONGTAIL.split(), stdin=end, stdout=end, stderr=end, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # makes it the terminal of the session
    )  # fmt: skip
    os.close(end)
    os.set_blocking(terminal, False)
    checkpoints = tmp_path / "run/ce/seed-0/checkpoints"
    while not list(checkpoints.glob("epoch-*")):
        assert process.poll() is None
        time.sleep(0.05)
        try:
            os.read(terminal, 1 << 16)
        except BlockingIOError:
            continue
    os.close(terminal)
    assert process.wait() == 128 + signal.SIGHUP
    assert [path for path in checkpoints.iterdir() if "-batch-000000" not in path.name]


@pytest.mark.faults
def test_a_hangup_that_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    process = start(
        tmp_path, *LONGTAIL.replace("500", "2").split(), stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    wait_for(process, tmp_path, "run/ce/seed-0/config.json")
    process.send_signal(signal.SIGHUP)
    _, told = process.communicate()
    assert process.returncode == 0, told
