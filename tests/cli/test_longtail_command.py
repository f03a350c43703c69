"""`energyalign longtail` as a user runs it: a table, and Ctrl-C that loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from stopped_command import stopped

COMMAND = [sys.executable, "-m", "energyalign.cli.main", "longtail"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def longtail(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


def test_interrupted_and_resumed_it_ends_with_the_bytes_of_a_whole_run(tmp_path: Path) -> None:
    options = ["digits", "--epochs", "40", "--corrector", "raw", "ea-marginal", "--evidence-size", "10", "--out"]
    whole = longtail(tmp_path, *options, "whole")
    assert whole.returncode == 0, whole.stderr
    assert "ea-marginal" in whole.stdout
    assert "manifest" in whole.stderr
    code, told = stopped(["longtail", *options, "cut"], tmp_path, signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "Stopped and saved. To go on:\n  energyalign longtail digits --epochs 40" in told
    assert longtail(tmp_path, *options, "cut").returncode == 0
    for name in ("rows.jsonl", "test_logits.safetensors"):
        assert (tmp_path / "cut" / "ce" / "seed-0" / name).read_bytes() == (
            tmp_path / "whole" / "ce" / "seed-0" / name
        ).read_bytes()


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
        (["digits", "--seed", "-1"], "the seed is -1"),
        (["digits", "--scale", "nan"], "the scale is nan"),
        (["digits", "--imbalance", "0"], "the imbalance is 0"),
        (["digits-lt-50", "--imbalance", "10"], "leave --imbalance out"),
        (["digits", "--precision", "lots"], "--precision lots"),
        (["digits", "--accelerator", "abacus"], "--accelerator abacus"),
        (["digits", "--profile", "counts.json"], "cannot read the counts of counts.json"),
        (["digits", "--method", "magic"], "unknown method 'magic'"),
        (["digits", "--from", "nowhere"], "nowhere is no run directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path, run: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("longtail", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


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
    folder = tmp_path / "runs" / "digits-lt-10-epochs-1-optimizer-adam"
    stored = json.loads((folder / "ce-linear" / "seed-3" / "config.json").read_text())
    assert (stored["imbalance"], stored["head"], stored["seed"]) == (10.0, "linear", 3)
    assert stored["recipe"]["optimizer"]["kind"] == "Adam"
    assert stored["name"] == "digits-lt-10"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_leaves_the_readers_of_images_alive(number: int, tmp_path: Path) -> None:
    """As a terminal, `timeout` and schedulers send it: to the workers that read images, too."""
    rng = np.random.default_rng(0)
    for split, sizes in (("train", (40, 20)), ("test", (2, 2))):
        for label, n in enumerate(sizes):
            folder = tmp_path / "images" / split / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(n):  # too large for memory's liking
                Image.fromarray(rng.integers(0, 255, (80, 90, 3), dtype=np.uint8)).save(folder / f"{i}.jpg")
    arguments = ["longtail", "folder:images", "--backbone", "small-cnn", "--epochs", "500", "--batch-size", "4"]
    code, told = stopped([*arguments, "--out", "run"], tmp_path, number, whole_group=True)
    assert code == 128 + number, told
    assert "Stopped and saved" in told
    assert "Traceback" not in told


def test_seeds_and_correctors_asked_for_twice_count_once(tmp_path: Path) -> None:
    result = longtail(tmp_path, "digits", "--epochs", "1", "--seed", "0", "0", "--corrector", "raw", "raw")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith("raw")]
    assert "±" not in line


def test_what_no_training_could_serve_is_refused_before_the_first(tmp_path: Path) -> None:
    result = longtail(tmp_path, "digits", "--method", "ce", "cb-focal", "--corrector", "tde", "--out", "run")
    assert result.returncode == 2
    assert "TDE" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_corrector_joins_a_finished_run_of_any_learner_and_no_unfinished_one(tmp_path: Path) -> None:
    quick = ["--epochs", "2", "--evidence-size", "2", "--out", "run"]
    assert longtail(tmp_path, "digits", "--method", "focal", *quick).returncode == 0
    run = tmp_path / "run" / "focal" / "seed-0"
    result = longtail(tmp_path, "digits", "--corrector", "la-post-hoc", "--from", str(run))
    assert result.returncode == 0, result.stderr
    for checkpoint in (run / "checkpoints").glob("epoch-00003-*"):
        checkpoint.unlink()
    result = longtail(tmp_path, "digits", "--corrector", "raw", "--from", str(run))
    assert result.returncode == 2
    assert "is not finished" in result.stderr


def test_counts_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "counts.json").write_text(json.dumps({str(k): 20 - k for k in range(10)}))
    arguments = ["digits", "--epochs", "1", "--corrector", "raw", "--profile", "counts.json", "--out", "run"]
    result = longtail(tmp_path, *arguments)
    assert result.returncode == 0, result.stderr
    row = json.loads((tmp_path / "run" / "ce" / "seed-0" / "rows.jsonl").read_text())
    assert row["counts"] == [20 - k for k in range(10)]


def test_methods_share_one_training_and_can_be_added_to_it_later(tmp_path: Path) -> None:
    options = ["--evidence-size", "5"]
    result = longtail(tmp_path, "digits", "--epochs", "2", "--method", "ce", "ea", *options, "--out", "run")
    assert result.returncode == 0, result.stderr
    run = tmp_path / "run" / "ce" / "seed-0"
    weights = sorted((run / "checkpoints").iterdir())[-1].read_bytes()
    later = longtail(tmp_path, "digits", "--method", "la-post-hoc", *options, "--from", str(run))
    assert later.returncode == 0, later.stderr
    rows = [json.loads(line)["corrector"] for line in (run / "rows.jsonl").read_text().splitlines()]
    assert sorted(rows) == ["ea", "la-post-hoc", "raw"]
    assert sorted((run / "checkpoints").iterdir())[-1].read_bytes() == weights
    for wrong, message in (
        (["digits", "--method", "focal"], "was trained by ce; focal needs a training of its own"),
        (["digits", "--epochs", "3"], "leave out --epochs"),
        (["digits", "--seed", "4"], "leave out --seed"),
        (["fashion-mnist"], "is a run on digits, not on fashion-mnist"),
    ):
        refused = longtail(tmp_path, *wrong, "--from", str(run))
        assert refused.returncode == 2
        assert message in refused.stderr
