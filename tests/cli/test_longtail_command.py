"""`energyalign longtail` as a user runs it: a table, and Ctrl-C that loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "energyalign.cli.main", "longtail"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def longtail(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


def test_interrupted_and_resumed_it_ends_with_the_bytes_of_a_whole_run(tmp_path: Path) -> None:
    options = ["digits", "--epochs", "6", "--corrector", "raw", "ea-marginal", "--evidence-size", "10", "--out"]
    whole = longtail(tmp_path, *options, "whole")
    assert whole.returncode == 0, whole.stderr
    assert "ea-marginal" in whole.stdout
    assert "manifest" in whole.stderr
    process = subprocess.Popen(
        [*COMMAND, *options, "cut"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not list((tmp_path / "cut").glob("seed-0/checkpoints/*")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have finished just before
        assert process.returncode == 128 + signal.SIGINT
        assert "Stopped and saved. To go on:\n  energyalign longtail digits --epochs 6" in told
        assert longtail(tmp_path, *options, "cut").returncode == 0
    for name in ("rows.jsonl", "test_logits.safetensors"):
        assert (tmp_path / "cut" / "seed-0" / name).read_bytes() == (tmp_path / "whole" / "seed-0" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist"], "there is no preset for 'mnist'"),
        (["digits", "--corrector", "magic"], "unknown corrector 'magic'"),
        (["digits", "--backbone", "alexnet"], "unknown backbone 'alexnet'"),
        (["digits", "--epochs", "0"], "epochs and batch size must be at least 1"),
        (["cifar100", "--data-root", "nowhere"], "cifar100 needs"),
        (["digits", "--evidence-policy", "lots"], "unknown augmentation policy 'lots'"),
        (["digits", "--evidence-size", "0"], "it takes at least 1"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = longtail(tmp_path, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_options_reach_the_config(tmp_path: Path) -> None:
    arguments = [
        "digits",
        "--epochs",
        "1",
        "--imbalance",
        "10",
        "--head",
        "linear",
        "--optimizer",
        "adam",
        "--seed",
        "3",
    ]
    result = longtail(tmp_path, *arguments, "--corrector", "raw")
    assert result.returncode == 0, result.stderr
    # Another training goes to another folder, without being told.
    folder = tmp_path / "runs" / "digits-lt-10-epochs-1-head-linear-optimizer-adam"
    stored = json.loads((folder / "seed-3" / "config.json").read_text())
    assert (stored["imbalance"], stored["head"], stored["seed"]) == (10.0, "linear", 3)
    assert stored["recipe"]["optimizer"]["kind"] == "Adam"
    assert stored["name"] == "digits-lt-10"
