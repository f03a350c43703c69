"""A disk of a few megabytes, to be full or read-only."""

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
        """Let so many bytes be free, in whole pages of 4096."""
        free = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize
        self._filler.write_bytes(bytes(max(0, free - leave)))

    def empty(self) -> None:
        """Give the space back."""
        self._filler.unlink()

    def make_read_only(self) -> None:
        """As a disk with errors becomes."""
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True)


@contextlib.contextmanager
def mounted(path: Path, *, megabytes: int = 1, of: Path | None = None) -> Iterator[SmallDisk]:
    """A disk, or another name of the folder `of`. The test is skipped where this process may not mount."""
    path.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"] if of is None else ["--bind", str(of)]
    answer = subprocess.run(["mount", *options, str(path)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.skip(f"a disk cannot be mounted here: {answer.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
