"""How far a run is that has not been measured to its end."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from energyalign.experiments.engine.stored import StoredRun

_CHECKPOINT = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")


def how_far(run: StoredRun) -> str:
    """For example ``step 3 of 5, epoch 12 of 60``; empty once there are rows of the last step."""
    if run.rows and (not run.in_steps or run.rows_at()[0].step == run.n_steps):
        return ""
    done = run.rows_at()[0].step if run.rows else 0
    words = [f"step {done + 1} of {run.n_steps}"] if run.in_steps else []
    epoch = _epoch(run)
    words.append("nothing saved yet" if epoch is None else f"epoch {epoch} of {run.config.epochs}")
    return ", ".join(words)


def checkpoints_of(run: StoredRun) -> list[Path]:
    """Of all its stages, by name."""
    return sorted(path for path in run.path.rglob("*.safetensors") if _CHECKPOINT.fullmatch(path.name))


def _epoch(run: StoredRun) -> int | None:
    """The epoch that the newest checkpoint is in, of whatever stage; at most the last one."""
    newest = {path.parent: path.name for path in checkpoints_of(run)}  # of each stage, by name: clocks go backwards
    saved = []
    for folder, name in newest.items():
        with contextlib.suppress(FileNotFoundError):  # the run goes on, and drops old ones
            saved.append(((folder / name).stat().st_mtime_ns, name))
    if not saved:
        return None
    return min(int(max(saved)[1].split("-")[1]), int(run.config.epochs))
