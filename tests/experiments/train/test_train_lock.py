"""The lock of a folder lives as long as its holder, and no longer."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import pytest
from warm_process import WarmProcess

from energyalign import EnergyAlignError
from energyalign.experiments.train.run_directory import locked

HOLDER = """
import sys, time
from pathlib import Path
from torch.utils.data import DataLoader
from energyalign.experiments.train.run_directory import locked

class Slow:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        Path(sys.argv[1], f"reader-{index}").write_text(str(__import__("os").getpid()))
        time.sleep(60)  # a file server that does not answer: nobody ends this reader

with locked(Path(sys.argv[1], "run")):
    next(iter(DataLoader(Slow(), num_workers=1)))
"""


def test_a_second_holder_is_refused_in_the_same_process_too(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "run"),
        pytest.raises(EnergyAlignError, match="is in use by another process"),
        locked(tmp_path / "run"),
    ):
        pass
    with locked(tmp_path / "run"):
        pass


def test_readers_that_outlive_a_killed_holder_do_not_keep_its_lock(tmp_path: Path) -> None:
    (tmp_path / "holder.py").write_text(HOLDER)
    holder = WarmProcess([tmp_path / "holder.py", tmp_path], tmp_path, tmp_path / "logs")
    reader = tmp_path / "reader-0"
    while not (reader.exists() and reader.read_text()):
        assert holder.poll() is None, holder.stderr
        time.sleep(0.01)
    with pytest.raises(EnergyAlignError, match="is in use by another process"), locked(tmp_path / "run"):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    assert holder.wait() == -signal.SIGKILL
    try:
        os.kill(int(reader.read_text()), 0)  # it lives
        with locked(tmp_path / "run"):
            pass
    finally:
        os.kill(int(reader.read_text()), signal.SIGKILL)


def test_what_is_forked_while_it_is_held_does_not_end_it(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(EnergyAlignError, match="is in use by another process"), locked(tmp_path / "run"):
            pass


def test_a_file_system_without_locks_is_refused_rather_than_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker file instead of a lock would outlive a killed holder."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(EnergyAlignError, match=r"cannot be locked: .* Give an --out"), locked(tmp_path / "run"):
        pass
