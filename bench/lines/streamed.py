"""Free energies of logits in a file larger than the allowed memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from bench.line import Line, at_most
from bench.measure import ROUNDS
from bench.scratch import scratch_folder

_ROWS, _CLASSES = 1 << 20, 1000
_MOST_GROWTH = 200e6


def lines() -> Iterator[Line]:
    """Compare with one np.sum over the same file; each has a process of its own, and they take turns."""
    with scratch_folder() as folder:
        path = folder / "logits.npy"
        write_logits(path, _ROWS)
        size = f".npy of {path.stat().st_size / 1e9:.1f} GB, in the page cache"
        with closing(_Reader("ours", path)) as ours, closing(_Reader("sum", path)) as theirs:
            first, _ = ours.ask(), theirs.ask()  # not counted, except for the memory that loading compiled loops takes
            pairs = [(ours.ask(), theirs.ask()) for _ in range(ROUNDS)]
    yield Line.of(
        "energies, streamed", size, "np.sum over the memmap", at_most(2.5),
        ours=[own["seconds"] for own, _ in pairs], theirs=[other["seconds"] for _, other in pairs],
    )  # fmt: skip
    growth = max(first["growth"], *(own["growth"] for own, _ in pairs))
    yield Line.single("energies, streamed", size, "200 MB of resident growth", growth, _MOST_GROWTH, unit="bytes")


def write_logits(path: Path, rows: int) -> None:
    """Write this many rows of random logits, repeating one block."""
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, _CLASSES))
    block = np.random.default_rng(0).standard_normal((1 << 16, _CLASSES), dtype=np.float32)
    for start in range(0, rows, len(block)):
        out[start : start + len(block)] = block
    out.flush()


class _Reader:
    """A process that reads the file on request."""

    def __init__(self, how: str, path: Path) -> None:
        command = [sys.executable, "-m", "bench.reader", how, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self) -> dict[str, float]:
        """Return the seconds of a read, and the peak growth of the process in bytes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
