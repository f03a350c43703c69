"""`energyalign apply` on a file larger than the allowed memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.command import ENERGYALIGN, ENVIRONMENT, energyalign
from bench.line import Line, at_most
from bench.lines.streamed import write_logits
from bench.measure import Work, alternate
from bench.memory import largest_resident
from bench.scratch import scratch_folder
from energyalign import Evidence, fit_shifts

ROWS = 1 << 20
_MOST = 200e6


def full_lines() -> Iterator[Line]:
    """Compare with a copy of the file that is on disk at the end, as our result is."""
    with scratch_folder() as folder:
        logits, shifts, ours, copy = (folder / name for name in ("logits.npy", "shifts.json", "ours.npy", "copy.npy"))
        write_logits(logits, ROWS)
        head = np.load(logits, mmap_mode="r")[:1_000]
        evidence = Evidence.from_arrays(head, counts=np.arange(head.shape[1], 0, -1))
        fit_shifts(evidence, estimator="prior", clusters="per-class").save(shifts)
        words = ["apply", logits, "--shifts", shifts, "--out", ours]
        workload = f"energyalign apply, .npy of {logits.stat().st_size / 1e9:.1f} GB, in the page cache"

        def clear() -> None:  # to replace a file takes longer
            ours.unlink(missing_ok=True)
            copy.unlink(missing_ok=True)

        seconds = alternate(
            {"ours": Work(energyalign(*words), clear), "copy": Work(lambda: _copy(logits, copy), clear)}
        )
        command = [sys.executable, *ENERGYALIGN, *map(str, words)]
        largest = largest_resident(subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT))
    yield Line.of(
        "apply", workload, "shutil.copyfile and fsync", at_most(1.3), ours=seconds["ours"], theirs=seconds["copy"]
    )
    yield Line.single("apply", workload, "200 MB resident", largest, _MOST, unit="bytes")


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as stream:
        os.fsync(stream.fileno())
