"""Peak memory of a piece of work or of a process."""

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
    """Peak growth of the resident size of this process, in bytes."""

    bytes: float = 0.0


@contextlib.contextmanager
def largest_growth() -> Iterator[Growth]:
    """Sample the resident size every few milliseconds."""
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
    """Return the resident size of this process in bytes."""
    return _status("self", "VmRSS")


def largest_resident(process: subprocess.Popen[Any]) -> float:
    """Return the peak resident size of a process in bytes. Waits for its end; raises if it failed."""
    # The kernel's figure for an ended child includes its parent at the time of the fork.
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
    raise ValueError(f"no {name} of process {process}: memory can be measured on Linux only, while the process runs.")
