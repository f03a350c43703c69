"""The command line with several processes: one of them prints, one exit code, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.faults  # every process loads the large libraries again

LONGTAIL = ["longtail", "digits", "--epochs", "2", "--accelerator", "cpu", "--corrector", "raw", "ea"]
INCREMENTAL = ["incremental", "digits", "--epochs", "1", "--accelerator", "cpu", "--corrector", "ea"]
COMMAND = [sys.executable, "-m", "energyalign.cli.main"]


def started(command: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip


def result(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Run the command; return exit code, stdout and stderr, and check that no process of its session is left."""
    output, errors = process.communicate(timeout=300)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return process.returncode, output, errors


def run(command: list[str], folder: Path) -> tuple[int, str, str]:
    return result(started(command, folder))


def test_from_end_to_end_in_two_ways(tmp_path: Path) -> None:
    code, table, told = run([*COMMAND, *LONGTAIL, "--devices", "2", "--out", "own"], tmp_path)
    assert code == 0, told
    assert table.count("balanced") == 1
    assert told.count("epoch 2/2") == 1
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "energyalign.cli.main"]
    code, other, told = run([*torchrun, *LONGTAIL, "--out", "run"], tmp_path)
    assert code == 0, told
    assert other == table.replace("own", "run")
    first, second = (tmp_path / name / "ce" / "seed-0" for name in ("own", "run"))
    assert (first / "rows.jsonl").read_bytes() == (second / "rows.jsonl").read_bytes()
    assert (first / "commands.txt").read_text().count("\n") == 1
    assert len(list((first / "tensorboard").iterdir())) == 1
    assert not [path for path in first.rglob("*") if path.name.endswith(".part")]
    code, _, told = run([*torchrun, *LONGTAIL, "--out", "run", "--devices", "3"], tmp_path)
    assert code == 1
    assert "torchrun has started 2 processes on each of 1 nodes." in told


def test_an_incremental_run_by_a_script(tmp_path: Path) -> None:
    """As a console script: a file that is not a module."""
    script = tmp_path / "energyalign"
    script.write_text("import sys\nfrom energyalign.cli.main import main\nsys.exit(main())\n")
    code, table, told = run([sys.executable, str(script), *INCREMENTAL, "--devices", "2", "--out", "own"], tmp_path)
    assert code == 0, told
    assert table.count("Top-1 accuracy") == 1
    assert told.count("After step 5,") == 1


def test_an_error_of_all_is_said_once(tmp_path: Path) -> None:
    code, table, told = run([*COMMAND, *LONGTAIL, "--devices", "2", "--batch-size", "1", "--out", "own"], tmp_path)
    assert (code, table) == (2, "")
    assert told.count("energyalign: error: ") == 1
    assert "too few for 2 processes" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("who", "number"), [("first", signal.SIGTERM), ("second", signal.SIGTERM), ("all", signal.SIGINT)]
)
def test_a_signal_to_any_of_them_saves_once_and_ends_all(tmp_path: Path, who: str, number: int) -> None:
    arguments = ["longtail", "digits", "--epochs", "60", "--accelerator", "cpu", "--devices", "2", "--out", "cut"]
    process, second = begun(arguments, tmp_path)
    {"first": lambda: os.kill(process.pid, number), "second": lambda: os.kill(second, number),
     "all": lambda: os.killpg(process.pid, number)}[who]()  # fmt: skip
    code, table, told = result(process)
    assert (code, table) == (128 + number, ""), told
    assert told.count("Stopped and saved. To resume:") == 1
    assert "Traceback" not in told


@pytest.mark.parametrize("who", ["first", "second"])
def test_if_one_is_killed_the_other_does_not_wait_for_it(tmp_path: Path, who: str) -> None:
    arguments = ["longtail", "digits", "--epochs", "60", "--accelerator", "cpu", "--devices", "2", "--out", "cut"]
    process, second = begun(arguments, tmp_path)
    os.kill(process.pid if who == "first" else second, signal.SIGKILL)
    output, told = process.communicate(timeout=60)  # both processes have ended when the pipes are closed
    assert process.returncode == (-signal.SIGKILL if who == "first" else 75)  # 75: may succeed on retry
    assert output == ""
    assert told.count("energyalign: error: one of the 2 processes of this run ended early") == 1


def begun(arguments: list[str], folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a command, wait for the middle of its training, and return it with the id of its second process."""
    process = started([*COMMAND, *arguments], folder)
    while not list(folder.glob("cut/ce/seed-0/checkpoints/epoch-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return process, int(children[0])
