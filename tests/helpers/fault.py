"""Runs `energyalign` in processes of its own, with faults, and compares what is left."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from warm_process import WarmProcess

SCRIPT = Path(__file__).with_name("faulty_energyalign.py")
_LOGS = tempfile.TemporaryDirectory()  # not beside the run: its disk may be full


def started(arguments: list[str], folder: Path, fault: dict[str, Any] | None = None) -> WarmProcess:
    """The command, begun in this folder; see faulty_energyalign.py for the faults."""
    folder.mkdir(exist_ok=True)
    logs = tempfile.mkdtemp(dir=_LOGS.name)
    return WarmProcess([SCRIPT, json.dumps(fault or {}), *arguments], folder, Path(logs))


def ended(arguments: list[str], folder: Path, fault: dict[str, Any] | None = None) -> tuple[int, str]:
    """Exit code and stderr of the command."""
    process = started(arguments, folder, fault)
    return process.wait(), process.stderr


def files_of(folder: Path) -> dict[str, bytes]:
    """All that must be the same whatever happened on the way: every file but locks and TensorBoard's."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and "tensorboard" not in path.parts
    }
