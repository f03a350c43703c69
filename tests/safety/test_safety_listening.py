"""Communicating processes use loopback, require a token, and end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from processes import MARK, all_ended, command_of, listening, living
from saved_shards import save_shards

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("Servers listen on this machine only and end with their command", "commands"),
]

COMMAND = [sys.executable, "-m", "energyalign.cli.main"]
TWO_PROCESSES = "longtail digits --epochs 3 --accelerator cpu --corrector raw --devices 2 --out run"
SWEEP = "sweep longtail --cell digits-lt-50 --method ce --seed 0 --epochs 5000 --accelerator cpu --engine ray --jobs 1"
FIT = "fit shards/*.npy --labels labels.npy --evidence held-out --estimator marginal --engine ray --jobs 2 --quiet"
INTRUDER = """
import ray, sys
ray.init(address=sys.argv[1], log_to_driver=False)
ray.get(ray.remote(open).remote(sys.argv[2], "w"))
"""


class Command:
    """The command in a session of its own, and all processes that it starts."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        self._stderr = folder / "stderr.txt"
        with self._stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=folder, env=without_ray(**{MARK: self.mark, "OMP_NUM_THREADS": "1"}),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            )  # fmt: skip

    @property
    def told(self) -> str:
        return self._stderr.read_text()

    def living(self) -> set[int]:
        return living(self.mark, self.process.pid)

    def all_ended(self) -> bool:
        return all_ended(self.mark, self.process.pid, seconds=180.0)  # an agent of Ray needs a minute to notice


def without_ray(**more: str) -> dict[str, str]:
    """Return the environment of a user without settings for Ray."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | more


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Save logits whose fit takes a while."""
    save_shards(tmp_path, n_shards=200, n_classes=50)
    return tmp_path


def test_two_processes_of_a_run_meet_on_loopback(tmp_path: Path) -> None:
    command, seen = Command(TWO_PROCESSES.split(), tmp_path), set()
    while command.process.poll() is None:
        seen |= listening(command.living())
        time.sleep(0.02)
    assert command.process.returncode == 0, command.told
    assert seen
    assert all(address.is_loopback for address, _ in seen), seen


def test_a_cluster_of_its_own_listens_on_loopback_and_asks_for_a_token(tmp_path: Path) -> None:
    command = begun_sweep(tmp_path)
    seen = listening(command.living())
    assert seen
    assert all(address.is_loopback for address, _ in seen), seen
    (head,) = [pid for pid in command.living() if "/gcs_server " in command_of(pid)]
    folder = Path(command_of(head).partition("--log_dir=")[2].partition("/ray/session_")[0])
    assert folder.stat().st_mode & 0o077 == 0
    ((_, port),) = listening({head})
    intruder = subprocess.run(
        [sys.executable, "-c", INTRUDER, f"127.0.0.1:{port}", str(tmp_path / "code-ran")],
        env=without_ray(RAY_AUTH_MODE="disabled", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert intruder.returncode == 1
    assert "uthentication" in intruder.stderr
    assert not (tmp_path / "code-ran").exists()
    os.killpg(command.process.pid, signal.SIGINT)  # as the terminal does
    assert command.process.wait() == 128 + signal.SIGINT, command.told
    assert command.all_ended(), [command_of(pid) for pid in command.living()]
    assert not folder.exists()


def test_nobody_of_a_killed_sweep_is_left(tmp_path: Path) -> None:
    command = begun_sweep(tmp_path)
    command.process.kill()
    command.process.wait()
    assert command.all_ended(), [command_of(pid) for pid in command.living()]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nobody_of_a_stopped_fit_is_left(shards: Path, how: int) -> None:
    command = Command(FIT.split(), shards)
    while not any("ray::" in command_of(pid) for pid in command.living()):
        assert command.process.poll() is None, command.told
        time.sleep(0.1)
    os.kill(command.process.pid, how)
    assert command.process.wait() == (-how if how == signal.SIGKILL else 128 + how), command.told
    assert command.all_ended(), [command_of(pid) for pid in command.living()]


def begun_sweep(folder: Path) -> Command:
    """Start a sweep on a cluster of its own, and wait for the middle of a training."""
    command = Command([*SWEEP.split(), "--out", "sweep"], folder)
    while not list(folder.glob("sweep/digits-lt-50/*/*/checkpoints/*")):
        assert command.process.poll() is None, command.told
        time.sleep(0.1)
    return command
