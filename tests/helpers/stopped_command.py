"""A command that is stopped after it has written a checkpoint."""

from __future__ import annotations

import os
import time
from pathlib import Path

from warm_process import WarmProcess


def stopped(
    arguments: list[str], folder: Path, number: int, *, whole_group: bool = False, stage: str = "."
) -> tuple[int, str]:
    """Run ``energyalign`` with these arguments in this folder; return exit code and stderr.

    If `stage` is given, wait for a checkpoint of that stage, in a folder below the run's.
    """
    process = WarmProcess(["-m", "energyalign.cli.main", *arguments], folder, folder / "logs")
    begun = f"{arguments[-1]}/**/seed-0/{stage}/checkpoints/epoch-*"  # the last argument is the value of --out
    while not list(folder.glob(begun)):
        assert process.poll() is None, process.stderr
        time.sleep(0.02)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    return process.wait(), process.stderr
