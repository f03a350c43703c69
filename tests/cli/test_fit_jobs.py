"""`energyalign fit` in several processes: the same file, and a clean end after any failure of a process."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from saved_shards import save_shards


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a folder of shards whose fit takes ten seconds, and labels; change to the folder above."""
    save_shards(tmp_path, n_shards=320, n_classes=40)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*more: str) -> subprocess.Popen[str]:
    """Start the command with two jobs, in a session of its own."""
    command = [sys.executable, "-m", "energyalign.cli.main", "fit", "shards/*.npy", "--labels", "labels.npy"]
    return subprocess.Popen(
        [*command, "--evidence", "held-out", "--jobs", "2", "--out", "shifts.json", "--quiet", *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def worker_of(process: subprocess.Popen[str]) -> int:
    """Return the first process of the pool as soon as it exists."""
    while process.poll() is None:
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        time.sleep(0.01)
    raise AssertionError(process.communicate())


def all_gone(group: int) -> bool:
    """Wait until every process of a session has ended; return whether all have."""
    for _ in range(1000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_two_thousand_shards_and_few_open_files(tmp_path, monkeypatch, shell):
    rng = np.random.default_rng(0)
    (tmp_path / "many").mkdir()
    for number in range(2000):
        np.save(tmp_path / f"many/{number}.npy", rng.normal(size=(2, 4)).astype(np.float32))
    np.save(tmp_path / "labels.npy", np.arange(4000) % 4)
    monkeypatch.chdir(tmp_path)

    def fit(*options: str) -> bytes:
        done = shell(
            "fit", "many/*.npy", "--labels", "labels.npy", "--estimator", "lse", "--clusters", "per-class",
            "--out", "-", *options,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    alone = fit()
    assert alone.count(b'"shift"') == 4
    assert fit("--jobs", "2") == alone


def test_a_killed_worker_is_an_error_and_no_result(shards):
    process = start()
    os.kill(worker_of(process), signal.SIGKILL)
    out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert err == (
        "energyalign: error: one of the 2 processes was killed, perhaps because memory ran out: start again with "
        "fewer --jobs.\n"
    )
    assert not Path("shifts.json").exists()
    assert all_gone(process.pid)


@pytest.mark.parametrize(
    ("when", "number"), [("loading", signal.SIGINT), ("working", signal.SIGINT), ("loading", signal.SIGTERM),
                         ("working", signal.SIGTERM), ("working", signal.SIGHUP)],
)  # fmt: skip
def test_a_signal_ends_all_processes_without_noise(shards, when, number):
    process = start()
    worker_of(process)
    if when == "working":
        time.sleep(1.0)
    os.killpg(process.pid, number)  # as the terminal and schedulers do
    out, err = process.communicate()
    assert (process.returncode, out) == (128 + number, "")
    assert err == "energyalign: interrupted; nothing was left half written.\n"
    assert not Path("shifts.json").exists()
    assert all_gone(process.pid)


def test_the_workers_die_with_their_parent(shards):
    process = start()
    worker_of(process)
    time.sleep(0.5)
    process.kill()
    process.communicate()
    assert all_gone(process.pid)


def test_a_bad_value_is_named_as_one_process_names_it(shards, run):
    np.save("shards/077.npy", np.where(np.arange(4000).reshape(100, 40) == 1234, np.nan, np.zeros((100, 40))))
    single, double = (run("fit", "shards/*.npy", "--estimator", "lse", "--jobs", jobs) for jobs in (1, 2))
    assert single == double
    assert single[0] == 2
    assert "row 30 of shards/077.npy: logits has NaN at sample 7730, class 34 (counted from 0)" in single[2]


def test_standard_input_is_shared_too(shards, shell):
    logits = np.concatenate([np.load(path) for path in sorted(Path("shards").iterdir())])
    np.save("all.npy", np.tile(logits, (5, 1)))  # 25 MB, two parts
    content = Path("all.npy").read_bytes()
    options = ("--estimator", "lse", "--clusters", "per-class", "--out", "-")
    single, double = (shell("fit", "-", *options, "--jobs", jobs, input=content) for jobs in (1, 2))
    assert double.returncode == 0, double.stderr
    assert single.stdout == double.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["shards/*.npy", "--jobs", "0"], "--jobs must be >= 1, got 0."),
        (["shards/*.npy", "--address", "127.0.0.1:6379"], "--address needs --engine ray"),
        (["shards/*.npy", "--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
        (["-", "--engine", "ray"], "--engine ray cannot read standard input: save it to a file"),
        (["shards/*.np"], "shards/*.np matches no file: check the folder and the pattern."),
    ],
)
def test_what_cannot_be(shards, run, options, message):
    code, out, err = run("fit", *options)
    assert (code, out) == (2, "")
    assert message in err
