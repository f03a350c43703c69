"""A place that only code of a crafted file would make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def sprung(tmp_path: Path) -> Iterator[Path]:
    """Where the trap of a crafted file makes a folder; at the end of a test it must not be there."""
    place = tmp_path / "code-ran"
    yield place
    assert not place.exists()
