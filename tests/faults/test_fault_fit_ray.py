"""`energyalign fit` on a real Ray cluster: the same file, also after losing a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from saved_shards import save_shards

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("Threads, processes and machines change no result", "environments"),
]


def fit(*options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "energyalign.cli.main", "fit", "shards/*.npy", "--labels", "labels.npy"]
    return subprocess.Popen(
        [*command, "--evidence", "held-out", "--estimator", "marginal", "--quiet", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_shards(tmp_path, n_shards=200, n_classes=50)
    monkeypatch.chdir(tmp_path)


def finished(process: subprocess.Popen[str]) -> None:
    _, err = process.communicate()
    assert process.returncode == 0, err


def test_a_cluster_gives_the_same_file_also_when_its_processes_are_killed(shards: None) -> None:
    finished(fit("--out", "alone.json"))
    process = fit("--out", "cluster.json", "--engine", "ray", "--jobs", "2")
    killed = 0
    while process.poll() is None and killed < 3:
        working = [pid for pid in _session(process.pid) if b"ray::_work_on" in _command(pid)]
        for pid in working[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        time.sleep(0.3)
    finished(process)
    assert killed == 3
    assert Path("cluster.json").read_bytes() == Path("alone.json").read_bytes()


def test_an_error_in_a_shard_comes_back_as_it_is(shards: None) -> None:
    np.save("shards/150.npy", np.full((100, 50), np.inf))
    process = fit("--engine", "ray", "--jobs", "2")
    _, err = process.communicate()
    assert process.returncode == 2
    said = "energyalign: error: row 0 of shards/150.npy: logits has +inf at sample 15000, class 0"
    assert err.splitlines()[-1].startswith(said)
    for _ in range(1800):  # an agent of Ray needs a minute to notice
        if not _session(process.pid):
            break
        time.sleep(0.1)
    assert not _session(process.pid), "the cluster was its own, and ends with it"


def _session(number: int) -> list[int]:
    """Return the processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == number and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
