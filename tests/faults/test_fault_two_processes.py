"""Two processes on one run directory: the second is refused, and the first goes on as if alone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from fault import ended, files_of, started
from killed_often import Whole, assert_ends_as

pytestmark = pytest.mark.faults

COMMAND = "longtail digits --corrector raw ea --epochs 30 --batch-size 16 --evidence-size 2 --out run"


def test_the_second_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    whole = Whole.of(COMMAND.split(), tmp_path / "whole")
    first = started(whole.arguments, tmp_path / "shared")
    while not list((tmp_path / "shared").rglob("epoch-*.safetensors")):
        assert first.poll() is None, first.stderr
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGSTOP)  # it will not end before the second has looked
    code, told = ended(whole.arguments, tmp_path / "shared")
    assert code == 75, told  # a failure that passes
    assert told.splitlines()[-1].endswith("is in use by another process: wait for it, or give another --out.")
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait() == 0
    assert files_of(tmp_path / "shared") == whole.files


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    whole = Whole.of(COMMAND.split(), tmp_path / "whole")
    first = started(whole.arguments, tmp_path / "shared")
    while not list((tmp_path / "shared").rglob("epoch-*.safetensors")):
        assert first.poll() is None, first.stderr
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert_ends_as(whole, tmp_path / "shared")
