"""Real runs, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from stored_runs import incremental_run, long_tail_run


@pytest.fixture(scope="session")
def long_tail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_tail_run(tmp_path_factory.mktemp("long-tail") / "seed-0")


@pytest.fixture(scope="session")
def in_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return incremental_run(tmp_path_factory.mktemp("in-steps") / "seed-0")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running
