"""BBN, capsule, De-confound and TDE from data to rows: they learn, and go on after an interruption as if none was."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from energyalign import EnergyAlignError
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.experiment import LongTailExperiment
from energyalign.longtail.learners import find_learner
from energyalign.longtail.methods import METHODS, name_of
from energyalign.longtail.presets import preset_for
from energyalign.longtail.rows import Row
from energyalign.train.interruption import Interrupted
from energyalign.train.position import Position
from energyalign.train.reporter import Reporter

torch.set_num_threads(1)

TRAININGS = {
    "bbn": ["bbn"],
    "capsule": ["capsule", "capsule-tde"],
    "causal-norm": ["de-confound", "de-confound-tde"],
    "cosine": ["ce", "cosine-tde"],
}
"""Rows by what they share a training of."""


class StopIn(Reporter):
    """Ctrl-C in the middle of this epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def batch_done(self, position: Position, lr: float) -> None:  # noqa: ARG002
        if (position.epoch, position.batch) == (self.epoch, 5):
            os.kill(os.getpid(), signal.SIGINT)


def run(names: list[str], folder: Path, *, epochs: int, reporter: Reporter | None = None) -> list[Row]:
    methods, preset = [METHODS[name] for name in names], preset_for("digits", 50)
    preset = replace(preset, head=methods[0].head or preset.head, recipe=preset.recipe.lasting(epochs))
    config = LongTailConfig.from_preset(preset, find_learner(methods[0].learner), seed=0)
    return LongTailExperiment(config, reporter=reporter).run(folder, [method.corrector for method in methods])


@pytest.mark.parametrize("training", TRAININGS)
def test_it_learns(training: str, tmp_path: Path) -> None:
    # TDE takes too much away from features that are hardly learnt. An epoch of BBN costs twice as much.
    rows = run(TRAININGS[training], tmp_path / "run", epochs=12 if training == "bbn" else 24)
    for name, row in zip(TRAININGS[training], rows, strict=True):
        print(f"{name}: {row['overall']:.3f}, few {row['few']:.3f}, {row['details']}")
        assert name_of(row["learner"], row["config"]["head"], row["corrector"]) == name
        assert row["overall"] > 0.6  # chance is 0.1
        if row["corrector"] == "tde":
            assert 1.0 < row["details"]["alpha"] < 2.0  # features are not negative, so that cosines are large


@pytest.mark.parametrize("training", TRAININGS)
def test_interrupted_runs_end_with_the_same_bytes(training: str, tmp_path: Path) -> None:
    names = TRAININGS[training]
    run(names, tmp_path / "whole", epochs=3)
    with pytest.raises(Interrupted):
        run(names, tmp_path / "cut", epochs=3, reporter=StopIn(2))
    assert max((tmp_path / "cut" / "checkpoints").iterdir()).name == "epoch-00002-batch-000005.safetensors"
    run(names, tmp_path / "cut", epochs=3)
    for file in ("test_logits.safetensors", "rows.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_tde_behind_a_linear_head_is_refused_before_training(tmp_path: Path) -> None:
    """As behind BBN, whose head is linear whatever the cell says."""
    config = LongTailConfig.from_preset(preset_for("digits", 50), find_learner("bbn"), seed=0)
    with pytest.raises(EnergyAlignError, match="a linear head does not normalise"):
        LongTailExperiment(config).run(tmp_path / "run", ["raw", "tde"])
    assert not (tmp_path / "run").exists()
