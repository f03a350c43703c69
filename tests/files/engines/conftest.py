"""Engines that are started once for many tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from energyalign.files.engines.processes import Processes


@pytest.fixture(scope="session")
def pools() -> Iterator[dict[int, Any]]:
    """Return pools of local processes, by their number."""
    with Processes(2) as two, Processes(3) as three:
        yield {2: two, 3: three}
