"""A small disk of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import SmallDisk, mounted


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Of four megabytes, which is room for a run on digits."""
    with mounted(tmp_path / "disk", megabytes=4) as disk:
        yield disk
