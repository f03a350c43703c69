"""Peak memory of a whole incremental run, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.line import Line
from bench.memory import largest_resident

MOST = 2.5e9
STEPS = 10


def full_lines() -> Iterator[Line]:
    """Measure the peak of a command that reads all images, trains, corrects, chooses exemplars and measures."""
    with tempfile.TemporaryDirectory() as folder:
        _write_cifar_100(Path(folder))
        largest = _peak(
            "incremental", "cifar100", "--steps", str(STEPS), "--epochs", "1", "--batch-size", "128", "--method", "ea",
            "--data-root", folder, "--out", str(Path(folder, "run")),
        )  # fmt: skip
    yield Line.single(
        "incremental memory", f"CIFAR-100 in {STEPS} steps, memory 2,000, ResNet-32, batch 128, one epoch a step",
        "resident at its peak", largest, MOST, unit="bytes",
    )  # fmt: skip


def _write_cifar_100(folder: Path) -> None:
    """Write the files of the binary version with random pixels: two bytes of labels before each image."""
    rng = np.random.default_rng(0)
    for name, n in (("train.bin", 50_000), ("test.bin", 10_000)):
        records = rng.integers(0, 256, (n, 2 + 3 * 32 * 32), dtype=np.uint8)
        records[:, 1] = np.arange(n) % 100
        records.tofile(folder / name)


def _peak(*arguments: str) -> float:
    """Return the peak resident size of the command; without workers it has no child processes."""
    command = [sys.executable, "-m", "energyalign.cli.main", *arguments]
    return largest_resident(subprocess.Popen(command, stdout=subprocess.DEVNULL))
