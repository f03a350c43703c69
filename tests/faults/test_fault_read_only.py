"""A disk that becomes read-only: a clear error, and existing results can still be reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault import ended, files_of
from small_disk import SmallDisk

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("A full or read-only disk damages no existing file", "disks"),
]

COMMAND = "longtail digits --corrector raw ea --epochs 1 --batch-size 64 --evidence-size 2 --out"


def test_runs_on_a_read_only_disk(disk: SmallDisk, tmp_path: Path) -> None:
    code, told = ended([*COMMAND.split(), str(disk.path / "run")], tmp_path / "work")
    assert code == 0, told
    before = files_of(disk.path)
    disk.make_read_only()
    for name in ("run", "new"):  # to go on with one, and to begin one
        code, told = ended([*COMMAND.split(), str(disk.path / name)], tmp_path / "work")
        assert code == 2, told
        assert "Traceback" not in told
        assert told.splitlines()[-1].startswith(f"energyalign: error: cannot use the folder {disk.path / name}/")
        assert told.splitlines()[-1].endswith(": Read-only file system.")
    assert files_of(disk.path) == before
    code, told = ended(["report", str(disk.path / "run"), "--out", "report.html"], tmp_path / "work")
    assert code == 0, told
    code, told = ended(["report", str(disk.path / "run"), "--out", str(disk.path / "report.html")], tmp_path / "work")
    assert code == 2, told
    assert "Traceback" not in told
