"""How much memory a piece of work takes at its largest."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.005


@dataclass
class Growth:
    """Bytes by which the resident size of this process had grown at its largest."""

    bytes: float = 0.0


@contextlib.contextmanager
def largest_growth() -> Iterator[Growth]:
    """Look at the resident size every few milliseconds."""
    before, growth, done = resident(), Growth(), threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY):
            growth.bytes = max(growth.bytes, resident() - before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield growth
    finally:
        done.set()
        thread.join()
        growth.bytes = max(growth.bytes, resident() - before)


def resident() -> float:
    """Bytes of this process that are in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS in /proc/self/status: memory is measured on Linux only.")
