"""Run `energyalign` in a separate process with an injected fault, and compare the files that remain."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from warm_process import WarmProcess

SCRIPT = Path(__file__).with_name("faulty_energyalign.py")
_LOGS = tempfile.TemporaryDirectory()  # not beside the run, whose disk may be full


def started(arguments: list[str], folder: Path, fault: dict[str, Any] | None = None) -> WarmProcess:
    """Start the command in this folder; faulty_energyalign.py describes the faults."""
    folder.mkdir(exist_ok=True)
    logs = tempfile.mkdtemp(dir=_LOGS.name)
    return WarmProcess([SCRIPT, json.dumps(fault or {}), *arguments], folder, Path(logs))


def ended(arguments: list[str], folder: Path, fault: dict[str, Any] | None = None) -> tuple[int, str]:
    """Run the command to its end, and return exit code and stderr."""
    process = started(arguments, folder, fault)
    return process.wait(), process.stderr


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files that must be deterministic: all except locks and TensorBoard's files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and "tensorboard" not in path.parts
    }
