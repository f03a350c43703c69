"""Runs of a synthetic sweep."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.methods import find_method
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.presets import PRESETS as LONG_TAIL
from energyalign.experiments.sweep.plan import PlannedRun

PROGRAM = ("sweep_program",)


def planned(out: Path, name: str, what: str = "measure", *, n_steps: int | None = None) -> PlannedRun:
    """Make a run that does `what` (see sweep_program.py); with `n_steps`, a class-incremental one."""
    folder = out / name
    config = _config(n_steps) | {"name": name}
    return PlannedRun(name, folder, (json.dumps(config), str(folder), what), config, ("raw",))


def _config(n_steps: int | None) -> dict[str, Any]:
    if n_steps is None:
        return LongTailConfig.from_preset(LONG_TAIL["digits-lt-50"], seed=0).to_json()
    return config_of(find_method("ea"), replace(INCREMENTAL["digits-il-5"], n_steps=n_steps), seed=0).to_json()
