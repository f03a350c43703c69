"""Which runs belong to one training, and their labels."""

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
from energyalign.report.figures import FIGURES
from energyalign.report.figures.common import about, trainings_of, with_and_without
from energyalign.report.tables import TABLES
from energyalign.report.tables.model import as_text
from energyalign.report.tables.own import tables_of
from energyalign.report.trainings import printable, shorten


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
    plans = [EvidencePlan(n, policy) for n, policy in ((5, "two"), (50, "two"), (50, "half"))]
    several = StoredRun(run.path, run.config, [*run.rows, *(replace(row, evidence=plan) for plan in plans[1:])])
    assert run.row_of("ea").evidence == plans[0]  # type: ignore[union-attr]
    assert several.row_of("ea").evidence == plans[1]  # type: ignore[union-attr]
    assert several.row_of("nothing") is None
    assert "evidence two x 50" in about(trainings_of("x", [several]))
    assert "evidence" not in about(trainings_of("x", [run]))


def test_the_last_step_is_one_that_all_seeds_have(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    begun = StoredRun(run.path, Settings({**run.config.values, "seed": 1}), [row for row in run.rows if row.step < 4])
    (training,) = trainings_of("x", [run, begun])
    assert training.step == 3
    assert {row.step for _, row in training.measured("ea")} == {3}
    assert (training.n_old, len(training.counts), len(training.class_names)) == (4, 6, 6)


def test_two_kinds_of_runs(long_tail: Stored, incremental: Stored) -> None:
    with pytest.raises(EnergyAlignError, match="the figure x must be of long-tailed or of incremental runs, got both"):
        trainings_of("x", [*long_tail.runs, *incremental.runs])


def test_names_that_cannot_be_printed(tmp_path: Path) -> None:
    assert printable("a\nb\x01\ud800") == "a\ufffdb\ufffd\ufffd"
    assert shorten("x" * 24) == "x" * 24
    assert shorten("x" * 25) == "x" * 23 + "…"
    run = made_up_run(tmp_path / "run", ["a", "b"])
    named = StoredRun(run.path, Settings({**run.config.values, "name": "my\nimages"}), run.rows)
    assert about(trainings_of("x", [named])).startswith("my\ufffdimages, ")


def with_rows(run: StoredRun, seed: int, **plans: EvidencePlan) -> StoredRun:
    """Return the run with this seed, and an `ea` row for each kind of evidence, with increasing accuracy."""
    config = Settings({**run.config.values, "seed": seed})
    rows = [replace(row, seed=seed, config=config) for row in run.rows]
    (aligned,) = [row for row in rows if row.corrector == "ea"]
    others = [row for row in rows if row.corrector != "ea"]
    evidence = [replace(aligned, evidence=plan, balanced=0.1 * (k + seed)) for k, plan in enumerate(plans.values(), 1)]
    return StoredRun(run.path, config, [*others, *evidence])


def test_figure_and_table_take_the_same_rows(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", ["cat", "dog"])
    hard, default = EvidencePlan(50, "half"), EvidencePlan()
    runs = [with_rows(run, 0, a=hard, b=default), with_rows(run, 1, a=hard), with_rows(run, 2, a=hard, b=default)]
    (training,) = trainings_of("x", runs)
    assert [(row.seed, row.evidence) for row in training.rows_of("ea")] == [(0, default), (2, default)]
    table = TABLES["matrix"].make([row for each in runs for row in each.rows])
    place = [column.title for column in table.columns].index("ea")
    cell = table.lines[0].cells[place]
    shown = training.percentages("ea", ["balanced"])[:, 0]
    assert (cell.mean, cell.deviation, cell.n) == pytest.approx((shown.mean(), shown.std(ddof=1), 2))
    written = [text.get_text() for text in FIGURES["matrix"].draw(runs).axes[0].texts]
    assert f"{cell}\n(n = 2)" in written  # of three seeds
    page = as_text(tables_of([row for each in runs for row in each.rows], matrix=True)[-1])[1]
    assert str(cell) in page[0]


def test_figures_compare_the_same_seeds(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", ["cat", "dog"])
    runs = [with_rows(run, seed, a=EvidencePlan()) for seed in (0, 1)]
    runs[1] = replace(runs[1], rows=runs[1].rows[:1])  # raw alone
    (training,), note = with_and_without("x", trainings_of("x", runs))
    assert [row.seed for row in training.rows_of("raw")] == [0]
    assert note == "Not shown (no rows of raw and ea): ce, seed 1."
