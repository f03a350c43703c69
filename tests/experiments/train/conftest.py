"""A run that was never interrupted, to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_training import train_toy


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The folder of an uninterrupted run."""
    train_toy(tmp_path / "whole")
    return tmp_path / "whole"
