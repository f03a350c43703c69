"""BBN, capsule, De-confound and TDE from data to rows: they learn, and an interruption changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from digits_run import StopIn, run_rows

from energyalign import EnergyAlignError
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.methods import name_of
from energyalign.experiments.longtail.presets import preset_for

torch.set_num_threads(1)

TRAININGS = {
    "bbn": ["bbn"],
    "capsule": ["capsule", "capsule-tde"],
    "de-confound": ["de-confound", "de-confound-tde"],
    "cosine": ["ce", "cosine-tde"],
}
"""Rows by what they share a training of."""


@pytest.mark.parametrize("training", TRAININGS)
def test_it_learns(training: str, tmp_path: Path) -> None:
    # TDE removes too much from features that are hardly trained. An epoch of BBN costs twice as much.
    rows = run_rows(TRAININGS[training], tmp_path / "run", epochs=12 if training == "bbn" else 24)
    for name, row in zip(TRAININGS[training], rows, strict=True):
        print(f"{name}: {row.overall:.3f}, few {row.few:.3f}, {row.details}")
        assert name_of(row.learner, row.config.head, row.corrector) == name
        assert row.overall > 0.6  # chance is 0.1
        if row.corrector == "tde":
            assert 1.0 < row.details["alpha"] < 2.0  # features are not negative, so cosines are large


@pytest.mark.parametrize("training", TRAININGS)
def test_interrupted_runs_end_with_the_same_bytes(training: str, tmp_path: Path) -> None:
    names = TRAININGS[training]
    run_rows(names, tmp_path / "whole", epochs=3)
    with pytest.raises(Interrupted):
        run_rows(names, tmp_path / "cut", epochs=3, reporter=StopIn(2))
    assert max((tmp_path / "cut" / "checkpoints").iterdir()).name == "epoch-00002-batch-000005.safetensors"
    run_rows(names, tmp_path / "cut", epochs=3)
    for file in ("test_logits.safetensors", "rows.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_tde_behind_a_linear_head_is_refused_before_training(tmp_path: Path) -> None:
    """BBN has a linear head, whatever the cell's head is."""
    config = LongTailConfig.from_preset(preset_for("digits", 50), find_learner("bbn"), seed=0)
    with pytest.raises(EnergyAlignError, match="a linear head does not normalise"):
        LongTailExperiment(config).run(tmp_path / "run", ["raw", "tde"])
    assert not (tmp_path / "run").exists()
