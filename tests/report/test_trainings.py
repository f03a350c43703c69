"""The progress of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from made_row import made_row

from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.trainings import progress_of

CONFIG = {
    "name": "digits", "head": "cosine", "backbone": "small-cnn", "seed": 0,
    "recipe": {"epochs": 60, "optimizer": {"kind": "SGD"}},
}  # fmt: skip


def stored(path: Path, *steps: int, n_steps: int | None = None) -> StoredRun:
    config: dict[str, Any] = {**CONFIG, "kind": "LongTailConfig"}
    if n_steps is not None:
        config |= {"kind": "IncrementalConfig", "n_steps": n_steps, "held_out": 0.0}
    return StoredRun(path, Settings(config), [made_row(config, step=step) for step in steps])


def save(path: Path, place: str, epoch: int, second: int) -> None:
    file = path / place / f"epoch-{epoch:05d}-batch-000010.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    os.utime(file, (second, second))


def test_a_long_tail(tmp_path: Path) -> None:
    assert progress_of(stored(tmp_path)) == "nothing saved yet"
    save(tmp_path, "checkpoints", 7, 1)
    save(tmp_path, "checkpoints", 12, 2)
    assert progress_of(stored(tmp_path)) == "epoch 12 of 60"
    save(tmp_path, "checkpoints", 61, 3)  # the end of the last epoch
    assert progress_of(stored(tmp_path)) == "epoch 60 of 60"
    assert progress_of(stored(tmp_path, 1)) == ""


def test_a_clock_that_was_set_back_changes_nothing(tmp_path: Path) -> None:
    save(tmp_path, "checkpoints", 7, 2)
    save(tmp_path, "checkpoints", 8, 1)
    assert progress_of(stored(tmp_path)) == "epoch 8 of 60"


@pytest.mark.parametrize(("steps", "told"), [((), "step 1 of 3"), ((1, 2), "step 3 of 3")])
def test_steps(tmp_path: Path, steps: tuple[int, ...], told: str) -> None:
    assert progress_of(stored(tmp_path, *steps, n_steps=3)) == f"{told}, nothing saved yet"
    save(tmp_path, "step-01/train/checkpoints", 60, 1)
    save(tmp_path, "step-03/train/checkpoints", 4, 2)  # by time, not by name
    assert progress_of(stored(tmp_path, *steps, n_steps=3)) == f"{told}, epoch 4 of 60"


def test_all_steps_done(tmp_path: Path) -> None:
    assert progress_of(stored(tmp_path, 1, 2, 3, n_steps=3)) == ""
