"""An uninterrupted run as a reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_training import train_toy


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Run without an interruption, and return the folder."""
    train_toy(tmp_path / "whole")
    return tmp_path / "whole"
