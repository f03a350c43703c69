"""A folder that only code in a crafted file would create."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def sprung(tmp_path: Path) -> Iterator[Path]:
    """Return the folder that a crafted file creates; check at the end of the test that it does not exist."""
    place = tmp_path / "code-ran"
    yield place
    assert not place.exists()
