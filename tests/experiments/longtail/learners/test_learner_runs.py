"""Every long-tailed learner, from data to rows: it learns, and an interruption changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from digits_run import StopIn, run_rows

from energyalign.core._io.signals import Interrupted

torch.set_num_threads(1)

NAMES = [
    "focal", "mixup", "manifold-mixup", "ce-drw", "ce-drs", "cb-focal", "ldam-drw", "la-loss", "la-loss-ldam",
    "lade", "ride",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_it_learns(name: str, tmp_path: Path) -> None:
    (row,) = run_rows([name], tmp_path / "run", epochs=8)
    assert row.learner == name
    assert row.overall > 0.5  # chance is 0.1


@pytest.mark.parametrize("name", NAMES)
def test_interrupted_runs_end_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Interrupted in the last of three epochs, the only one with re-balancing by deferred methods."""
    run_rows([name], tmp_path / "whole", epochs=3)
    with pytest.raises(Interrupted):
        run_rows([name], tmp_path / "cut", epochs=3, reporter=StopIn(3))
    assert max((tmp_path / "cut" / "checkpoints").iterdir()).name == "epoch-00003-batch-000005.safetensors"
    run_rows([name], tmp_path / "cut", epochs=3)
    for file in ("test_logits.safetensors", "rows.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
