"""Fixtures of the tests of files: a table of logits, and a reader of whole shard sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from energyalign.files import open_shards


@pytest.fixture
def logits() -> np.ndarray:
    """Return 23 rows of 5 classes in float32; transposing changes the order of the numbers."""
    return np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)


@pytest.fixture
def read() -> Callable[..., np.ndarray]:
    """Read everything that `open_shards` streams into one array, twice, and check that both are equal."""

    def read_all(*paths: str | Path, **options: Any) -> np.ndarray:
        shards = open_shards(paths, **options)
        first = np.concatenate(list(shards.blocks()))
        second = np.concatenate(list(shards.blocks()))
        np.testing.assert_array_equal(first, second)
        assert first.shape == (shards.n_rows, shards.n_classes)
        return first

    return read_all


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Limit blocks to 100 bytes, so that small tables have many."""
    monkeypatch.setattr("energyalign.files.checks.BLOCK_BYTES", 100)
    return 100
