"""Which runs belong together, and what they are called."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from drawn import Stored
from made_up_run import made_up_run

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.common import about, trainings_of
from energyalign.report.trainings import short, shown


def test_seeds_of_one_setting_are_one_training(long_tail: Stored) -> None:
    trainings = trainings_of("x", [*long_tail.runs, long_tail.runs[0]])
    assert [len(training.runs) for training in trainings] == [2, 1, 1]  # the seed that came twice counts once
    assert about(trainings) == "digits-lt-50, ce, small-cnn, 3 trainings, 1 to 2 seeds"
    assert about(trainings[1:2]) == "digits-lt-50, ce, linear head, small-cnn, 1 seed"


def test_any_setting_can_tell_them_apart(long_tail: Stored) -> None:
    run = long_tail.runs[0]
    other = json.loads(json.dumps(run.config.values))
    other["recipe"]["optimizer"]["lr"] = 7
    labels = [each.label for each in trainings_of("x", [run, StoredRun(run.path, Settings(other), run.rows)])]
    assert labels == [f"lr {run.config.optimizer['lr']}", "lr 7"]


def test_the_default_evidence_is_preferred_and_named(long_tail: Stored) -> None:
    run = long_tail.below("b-linear")[0]
    (row,) = [each for each in run.rows if each.corrector == "ea"]
    plans = [EvidencePlan(n, policy) for n, policy in ((5, "one"), (50, "one"), (50, "two"))]
    several = StoredRun(run.path, run.config, [*run.rows, *(replace(row, evidence=plan) for plan in plans[1:])])
    assert run.row_of("ea").evidence == plans[0]  # type: ignore[union-attr]
    assert several.row_of("ea").evidence == plans[1]  # type: ignore[union-attr]
    assert several.row_of("nothing") is None
    assert "evidence one x 50" in about(trainings_of("x", [several]))
    assert "evidence" not in about(trainings_of("x", [run]))


def test_the_last_step_is_one_that_all_seeds_have(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    begun = StoredRun(run.path, Settings({**run.config.values, "seed": 1}), [row for row in run.rows if row.step < 4])
    (training,) = trainings_of("x", [run, begun])
    assert training.step == 3
    assert {row.step for _, row in training.measured("ea")} == {3}
    assert (training.n_old, len(training.counts), len(training.class_names)) == (4, 6, 6)


def test_two_kinds_of_runs(long_tail: Stored, incremental: Stored) -> None:
    with pytest.raises(EnergyAlignError, match="the figure x is of long-tailed or of incremental runs, not of both"):
        trainings_of("x", [*long_tail.runs, *incremental.runs])


def test_names_that_cannot_be_printed(tmp_path: Path) -> None:
    assert shown("a\nb\x01\ud800") == "a\ufffdb\ufffd\ufffd"
    assert short("x" * 24) == "x" * 24
    assert short("x" * 25) == "x" * 23 + "…"
    run = made_up_run(tmp_path / "run", ["a", "b"])
    named = StoredRun(run.path, Settings({**run.config.values, "name": "my\nimages"}), run.rows)
    assert about(trainings_of("x", [named])).startswith("my\ufffdimages, ")
