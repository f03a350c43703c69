"""Runs of a made-up sweep."""

from __future__ import annotations

import json
from pathlib import Path

from energyalign.sweep.planned_run import PlannedRun

PROGRAM = ("sweep_program",)


def planned(out: Path, name: str, what: str = "measure", **config: object) -> PlannedRun:
    """A run that does `what`; see sweep_program.py."""
    folder = out / name
    about = {"name": name, **config}
    return PlannedRun(name, folder, (json.dumps(about), str(folder), what), about, ("raw",))
