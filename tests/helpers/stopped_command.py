"""A command that is told to stop as soon as it has written a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


def stopped(
    arguments: list[str], folder: Path, number: int, *, whole_group: bool = False, stage: str = "."
) -> tuple[int, str]:
    """Exit code and stderr of ``energyalign`` with these arguments, run in this folder.

    With a stage, a folder below that of the run, the checkpoint is one of it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "energyalign.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    begun = f"{arguments[-1]}/**/seed-0/{stage}/checkpoints/epoch-*"  # the last argument is that of --out
    while not list(folder.glob(begun)):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    _, told = process.communicate(timeout=120)
    return process.returncode, told
