"""Memory of a large fit from shards, run as a command."""

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
    """Measure a fit on as many logits as ImageNet has: 5.1 GB."""
    with scratch_folder() as folder:
        files, n_classes = write_shards(folder, _SHARDS, _ROWS)
        for estimator in ("lse", "marginal", "auto"):
            yield Line.single(
                "memory of a fit", f"{_SHARDS * _ROWS:,} × {n_classes:,} in {_SHARDS} shards, --estimator {estimator}",
                "300 MB resident", _largest_resident(files, folder / "shifts.json", estimator), _MOST, unit="bytes",
            )  # fmt: skip


def write_shards(folder: Path, n_shards: int, n_rows: int) -> tuple[list[str], int]:
    """Write .npy files of this many rows, and labels; return arguments for `energyalign fit`, and the classes."""
    block = biased_logits(n_rows, _CLASSES)
    shards = [folder / f"logits-{number:02}.npy" for number in range(n_shards)]
    for shard in shards:
        np.save(shard, block)
    labels = folder / "labels.npy"
    np.save(labels, np.arange(n_shards * n_rows) % _CLASSES)
    return [*map(str, shards), "--labels", str(labels)], _CLASSES


def _largest_resident(files: list[str], out: Path, estimator: str) -> float:
    command = [
        sys.executable, "-m", "energyalign.cli.main", "fit", *files, "--estimator", estimator, "--out", str(out),
        "--quiet",
    ]  # fmt: skip
    return largest_resident(subprocess.Popen(command))
