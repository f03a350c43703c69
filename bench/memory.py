"""How much memory a piece of work or a process takes at its largest."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    return _status("self", "VmRSS")


def largest_resident(process: subprocess.Popen[Any]) -> float:
    """Bytes of a process in memory at its largest. It waits for its end, which must be a good one."""
    # What the system says of a child at its end includes the parent as it was when it started the child.
    largest = 0.0
    while process.poll() is None:
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            largest = max(largest, _status(str(process.pid), "VmHWM"))
        time.sleep(_EVERY)
    if process.returncode != 0:
        raise RuntimeError(f"{process.args} ended with exit code {process.returncode}.")
    return largest


def _status(process: str, name: str) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1]) * 1024
    raise ValueError(f"no {name} of process {process}: memory is measured on Linux, of processes that live.")
