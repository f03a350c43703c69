"""A small disk for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import SmallDisk, mounted


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mount a disk of four megabytes, enough for a run on digits."""
    with mounted(tmp_path / "disk", megabytes=4) as disk:
        yield disk
