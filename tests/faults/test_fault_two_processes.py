"""Two processes with one run directory: the second is refused, and the first continues undisturbed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from command_inputs import save_inputs
from fault import ended, files_of, started
from killed_often import Whole, assert_ends_as

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("Two processes cannot corrupt one output", "pairs of processes"),
]

COMMAND = "longtail digits --corrector raw ea --epochs 30 --batch-size 16 --evidence-size 2 --out run"
HOLDERS = {
    "longtail": COMMAND,
    "incremental": "incremental digits --steps 2 --corrector ea --epochs 5 --batch-size 16 --evidence-size 2 --out run",
    "sweep": "sweep longtail --cell digits-lt-50 --method ce --seed 0 --epochs 10 --batch-size 16 --out run",
}


def results(folder: Path) -> dict[str, bytes]:
    """Return the files without the logs of a sweep, which contain times."""
    return {name: content for name, content in files_of(folder).items() if "/logs/" not in name}


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_second_is_refused_while_the_first_is_there(holder: str, tmp_path: Path) -> None:
    whole = Whole.of(HOLDERS[holder].split(), tmp_path / "whole")
    first = started(whole.arguments, tmp_path / "shared")
    while not list((tmp_path / "shared").rglob("epoch-*.safetensors")):
        assert first.poll() is None, first.stderr
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGSTOP)  # keep it running until the second has started
    code, told = ended(whole.arguments, tmp_path / "shared")
    assert code == 75, told  # a failure that passes
    assert told.splitlines()[-1].endswith("is in use by another process: wait for it, or give another --out.")
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait() == 0, first.stderr
    assert results(tmp_path / "shared") == results(tmp_path / "whole")


def test_what_is_stopped_before_its_file_has_its_name_spoils_nothing(tmp_path: Path) -> None:
    """An output file without a lock: the last process to rename its file wins, and the file is complete."""
    save_inputs(tmp_path)
    fits = {name: f"fit logits.npy --counts counts.json --estimator {name} --out".split() for name in ("prior", "lse")}
    alone = {}
    for name, words in fits.items():
        assert ended([*words, f"{name}.json"], tmp_path)[0] == 0
        alone[name] = (tmp_path / f"{name}.json").read_bytes()
    hook = {"in": "os:replace", "at": 1, "signal": signal.SIGSTOP}
    first = started([*fits["prior"], "shared.json"], tmp_path, {"hooks": [hook]})
    while Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert first.poll() is None, first.stderr
        time.sleep(0.01)
    code, told = ended([*fits["lse"], "shared.json"], tmp_path)
    assert code == 0, told
    assert (tmp_path / "shared.json").read_bytes() == alone["lse"]
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait() == 0, first.stderr
    assert (tmp_path / "shared.json").read_bytes() == alone["prior"]
    assert list(tmp_path.glob(".*.part")) == []


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    whole = Whole.of(COMMAND.split(), tmp_path / "whole")
    first = started(whole.arguments, tmp_path / "shared")
    while not list((tmp_path / "shared").rglob("epoch-*.safetensors")):
        assert first.poll() is None, first.stderr
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert_ends_as(whole, tmp_path / "shared")
