"""TensorBoard can read the curves, and a full disk does not stop a training."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_training import RECIPE, bytes_of, train_toy

from energyalign.experiments.train.reporter import CURVES, Curves, Narrator, TensorBoard, mlflow_store


def test_files_of_several_processes_are_one_curve_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step, now in ((1, 2_000.0), (2, 1_000.0)):
        monkeypatch.setattr("energyalign.experiments.train.reporter.time.time", lambda now=now: now)
        curves = TensorBoard(tmp_path, "toy")
        curves.add(step, {"loss": 0.5 / step, "lr": 0.1})
        curves.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
    assert [event.step for event in events.Scalars("lr")] == [1, 2]


def test_curves_for_mlflow_hold_the_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # as `mlflow_store` does, but undone after the test
    for title in ("first", "second"):
        curves = CURVES["mlflow"](tmp_path, title)
        for step in (1, 2):
            curves.add(step, {"loss": 0.5 / step})
        curves.close()
    client = MlflowClient(mlflow_store(tmp_path))
    runs = client.search_runs([client.get_experiment_by_name("energyalign").experiment_id])
    assert {run.info.run_name for run in runs} == {"first", "second"}
    for run in runs:
        points = client.get_metric_history(run.info.run_id, "loss")
        assert sorted((point.step, point.value) for point in points) == [(1, 0.5), (2, 0.25)]


def test_curves_for_weights_and_biases_are_written_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB__SERVICE_WAIT", "300")  # its service starts slowly on a busy machine
    curves = CURVES["wandb"](tmp_path, "toy")
    curves.add(1, {"loss": 0.0625})
    curves.close()
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    give_up = time.monotonic() + 60  # its service may still write after it has finished
    while b"loss" not in (content := file.read_bytes()):  # wandb has no public reader of its files
        assert time.monotonic() < give_up
        time.sleep(0.1)
    assert b"0.0625" in content


SENDS = """
import sys, threading
sys.addaudithook(lambda event, given: print(given[0]) if event == "socket.getaddrinfo" else None)
from pathlib import Path
from energyalign.experiments.train.reporter import CURVES
CURVES["mlflow"](Path("run"), "toy").close()
for thread in set(threading.enumerate()) - {threading.current_thread()}:
    thread.join(20)
"""


@pytest.mark.parametrize("name", ["what?", "run#1"])
def test_mlflow_writes_nowhere_else(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address of a file would end before these characters."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ValueError, match=r"a path without \? and #, got "):
        CURVES["mlflow"](tmp_path / name, "toy")
    assert list(tmp_path.iterdir()) == []


def test_mlflow_sends_no_telemetry(tmp_path: Path) -> None:
    silent = ("PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS")  # with these it sends none anyway
    set_here = ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_TRACKING_URI")
    environment = {name: value for name, value in os.environ.items() if name not in silent + set_here}
    done = subprocess.run(
        [sys.executable, "-c", SENDS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_the_current_folder_does_not_choose_the_server_of_a_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nbase_url = http://192.0.2.1\n")
    program = (
        "import sys, wandb; from pathlib import Path; from energyalign.experiments.train.reporter import CURVES; "
        "init, wandb.init = wandb.init, lambda **_: print(wandb.setup().settings.base_url, Path.cwd()); "
        "CURVES['wandb'](Path('run'), 'toy')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    server, folder = done.stdout.split()
    assert server.startswith("https://")
    assert folder == str(tmp_path)


def test_training_goes_on_without_a_tracker_that_fails(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Curves:
        raise RuntimeError("it has timed out.\nAdvice")

    monkeypatch.setitem(CURVES, "wandb", fail)
    stream = io.StringIO()
    train_toy(tmp_path / "run", reporter=Narrator("toy", tmp_path / "scalars", stream, log="wandb"))
    assert (
        f"Continuing without curves: cannot write into {tmp_path / 'scalars'}: it has timed out.\n" in stream.getvalue()
    )
    assert bytes_of(tmp_path / "run") == bytes_of(whole)


def test_where_curves_cannot_be_written_training_goes_on_and_says_so_once(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "scalars").write_text("no folder")
    stream = io.StringIO()
    train_toy(tmp_path / "run", reporter=Narrator("toy", scalars=tmp_path / "scalars", stream=stream))
    lines = stream.getvalue().splitlines()
    assert len(lines) == RECIPE.epochs + 1
    assert lines[1] == f"Continuing without curves: cannot write into {tmp_path / 'scalars'}: File exists."
    assert bytes_of(tmp_path / "run") == bytes_of(whole)
