"""A small file system that can be filled or made read-only."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs; see `mounted`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, *, leave: int) -> None:
        """Leave only this many bytes free, in whole pages of 4096."""
        free = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize
        self._filler.write_bytes(bytes(max(0, free - leave)))

    def empty(self) -> None:
        """Free the space again."""
        self._filler.unlink()

    def make_read_only(self) -> None:
        """Make the file system read-only, as after a disk error."""
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True)


@contextlib.contextmanager
def mounted(path: Path, *, megabytes: int = 1, of: Path | None = None) -> Iterator[SmallDisk]:
    """Mount a tmpfs, or the folder `of` under a second name. Skips the test if this process may not mount."""
    path.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"] if of is None else ["--bind", str(of)]
    answer = subprocess.run(["mount", *options, str(path)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.skip(f"a disk cannot be mounted here: {answer.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
