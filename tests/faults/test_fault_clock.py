"""A clock that is set back, during a run or between two, changes no result and no reported time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fault import ended, files_of
from killed_often import Whole, assert_ends_as, killed

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("A clock that is set back changes no result", "clocks"),
]

COMMAND = "longtail digits --corrector raw ea --epochs 3 --batch-size 64 --evidence-size 2 --out run"


def test_a_day_back_after_the_first_checkpoint(tmp_path: Path) -> None:
    whole = Whole.of(COMMAND.split(), tmp_path / "whole")
    code, told = ended(whole.arguments, tmp_path / "back", {"clock": 86_400, "at": 4})
    assert code == 0, told
    left = re.findall(r"samples/s  (.*) left", told)
    assert len(left) == 3
    assert all(re.fullmatch(r"0:0\d:\d\d", time) for time in left)
    last = max((tmp_path / "back").rglob("epoch-*"), key=lambda path: path.name)
    assert last.stat().st_mtime < (tmp_path / "back").stat().st_mtime - 80_000, "the clock was not set back"
    code, told = ended(["report", "run", "--out", "report.html"], tmp_path / "back")
    assert code == 0, told
    (tmp_path / "back" / "report.html").unlink()
    assert_ends_as(whole, tmp_path / "back")


@pytest.mark.skipif(not shutil.which("faketime"), reason="there is no faketime (Debian: apt-get install faketime)")
def test_a_run_that_goes_on_before_it_began(tmp_path: Path) -> None:
    """All clocks of the process, in C too, report the year 2001."""
    whole = Whole.of(COMMAND.split(), tmp_path / "whole")
    assert killed(whole, tmp_path / "cut", {"kill": "replace", "at": 5})
    python = ["faketime", "2001-01-01", sys.executable]
    year = "import time; print(time.gmtime().tm_year)"
    assert subprocess.run([*python, "-c", year], capture_output=True, check=True).stdout == b"2001\n"
    command = [*python, "-m", "energyalign.cli.main", *whole.arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    done = subprocess.run(
        command, cwd=tmp_path / "cut", env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "cut") == whole.files
