"""A clock that is set back in mid-run changes no result and no time that is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fault import ended
from killed_often import Whole, assert_ends_as

pytestmark = pytest.mark.faults

COMMAND = "longtail digits --corrector raw ea --epochs 3 --batch-size 64 --evidence-size 2 --out run"


def test_a_day_back_after_the_first_checkpoint(tmp_path: Path) -> None:
    whole = Whole.of(COMMAND.split(), tmp_path / "whole")
    code, told = ended(whole.arguments, tmp_path / "back", {"clock": 86_400, "at": 4})
    assert code == 0, told
    left = re.findall(r"images/s  (.*) left", told)
    assert len(left) == 3
    assert all(re.fullmatch(r"0:0\d:\d\d", time) for time in left)
    last = max((tmp_path / "back").rglob("epoch-*"), key=lambda path: path.name)
    assert last.stat().st_mtime < (tmp_path / "back").stat().st_mtime - 80_000, "the clock was not set back"
    code, told = ended(["report", "run", "--out", "report.html"], tmp_path / "back")
    assert code == 0, told
    (tmp_path / "back" / "report.html").unlink()
    assert_ends_as(whole, tmp_path / "back")
