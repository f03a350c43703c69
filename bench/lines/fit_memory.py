"""Memory of a large fit from shards, as a command of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.line import Line
from bench.lines.marginal import biased_logits
from bench.memory import largest_resident
from bench.scratch import scratch_folder

_SHARDS, _ROWS, _CLASSES = 20, 64_000, 1_000
_MOST = 300e6


def full_lines() -> Iterator[Line]:
    """As large as ImageNet: 5.1 GB of logits."""
    with scratch_folder() as folder:
        block = biased_logits(_ROWS, _CLASSES)
        for number in range(_SHARDS):
            np.save(folder / f"logits-{number:02}.npy", block)
        np.save(folder / "labels.npy", np.arange(_SHARDS * _ROWS) % _CLASSES)
        for estimator in ("lse", "marginal", "auto"):
            yield Line.single(
                "memory of a fit", f"{_SHARDS * _ROWS:,} × {_CLASSES:,} in {_SHARDS} shards, --estimator {estimator}",
                "300 MB resident", _largest_resident(folder, estimator), _MOST, unit="bytes",
            )  # fmt: skip


def _largest_resident(folder: Path, estimator: str) -> float:
    shards = [str(path) for path in sorted(folder.glob("logits-*.npy"))]
    command = [
        sys.executable, "-m", "energyalign.cli.main", "fit", *shards, "--labels", str(folder / "labels.npy"),
        "--estimator", estimator, "--out", str(folder / f"{estimator}.json"), "--quiet",
    ]  # fmt: skip
    return largest_resident(subprocess.Popen(command))
