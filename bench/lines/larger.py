"""Further workloads of other lines: more logits, and logits with a larger spread."""

from __future__ import annotations

from collections.abc import Iterator

from bench.line import Line
from bench.lines.auto import made_up
from bench.lines.energies import beside_torch


def full_lines() -> Iterator[Line]:
    """Measure energies and `auto`."""
    yield from beside_torch(deviations=(5, 20))
    yield made_up(100_000, 1_000)
    yield made_up(20_000, 8_142)
