"""SIGTERM from a scheduler: the state is saved, the exit code is 143, and the command to resume is printed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from fault import ended, files_of
from killed_often import Whole
from photographs import longtail_command, make_photographs

pytestmark = pytest.mark.promise("A stopped command saves its state and leaves no temporary file", "signals")

LONGTAIL = "longtail digits --head linear --corrector raw ea crt --epochs 2 --batch-size 64 --evidence-size 2 --out run"
INCREMENTAL = (
    "incremental digits --steps 2 --learner distill --corrector ea --epochs 1 --batch-size 64 --evidence-size 2 "
    "--out run"
)


def sent(where: str, at: int = 1) -> dict[str, Any]:
    return {"in": where, "at": at, "signal": signal.SIGTERM}


MOMENTS = {
    "reading the data": [sent("energyalign.experiments.longtail.experiment:open_source")],
    "in a batch": [sent("energyalign.experiments.train.loop:seed_torch", 4)],
    "twice in a batch": [
        sent("energyalign.experiments.train.loop:seed_torch", 4),
        sent("energyalign.experiments.train.loop:save_checkpoint"),
    ],
    "as a checkpoint is saved": [sent("energyalign.experiments.train.loop:save_checkpoint")],
    "as the last one is saved": [sent("energyalign.experiments.train.loop:save_checkpoint", 2)],
    "in a batch of the second stage": [sent("energyalign.experiments.train.loop:seed_torch", 13)],
    "in evidence": [sent("energyalign.experiments.engine.outputs:balanced_evidence")],
    "as a row is stored": [sent("energyalign.experiments.engine.experiment:store_row", 2)],
    "and again while it says how to go on": [
        sent("energyalign.experiments.engine.outputs:balanced_evidence"),
        sent("energyalign.cli.process:command_line"),
    ],
}
IN_STEPS = {
    "in a batch of the second step": [sent("energyalign.experiments.train.loop:seed_torch", 14)],
    "in evidence": [sent("energyalign.experiments.engine.outputs:balanced_evidence")],
    "as exemplars are chosen": [sent("energyalign.experiments.incremental.experiment:finish_step")],
    "as a step is saved": [sent("energyalign.experiments.incremental.experiment:save_step", 2)],
}


@pytest.fixture(scope="module")
def longtail(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole.of(LONGTAIL.split(), tmp_path_factory.mktemp("longtail") / "whole")


@pytest.fixture(scope="module")
def incremental(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole.of(INCREMENTAL.split(), tmp_path_factory.mktemp("incremental") / "whole")


def assert_stops_and_goes_on(whole: Whole, folder: Path, hooks: list[dict[str, Any]]) -> None:
    code, told = ended(whole.arguments, folder, {"hooks": hooks})
    assert code == 128 + signal.SIGTERM, told
    assert told.endswith(f"Stopped and saved. To resume:\n  energyalign {' '.join(whole.arguments)}\n")
    assert "Traceback" not in told
    code, told = ended(whole.arguments, folder)
    assert code == 0, told
    found = files_of(folder)
    # A checkpoint within the last epoch stays as the spare one, in place of the one at the start of the epoch.
    assert {name for name in whole.files if "checkpoints" not in name} <= found.keys()
    assert [name for name in found if found[name] != whole.files.get(name) and "-batch-000000" in name] == []
    assert [name for name in found if found[name] != whole.files.get(name) and "checkpoints" not in name] == []


def test_while_evidence_is_drawn(longtail: Whole, tmp_path: Path) -> None:
    assert_stops_and_goes_on(longtail, tmp_path / "cut", MOMENTS["in evidence"])


@pytest.mark.faults
@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment != "in evidence"])
def test_at_any_moment_of_a_long_tailed_run(moment: str, longtail: Whole, tmp_path: Path) -> None:
    assert_stops_and_goes_on(longtail, tmp_path / "cut", MOMENTS[moment])


@pytest.mark.faults
@pytest.mark.parametrize("moment", IN_STEPS)
def test_at_any_moment_of_an_incremental_run(moment: str, incremental: Whole, tmp_path: Path) -> None:
    assert_stops_and_goes_on(incremental, tmp_path / "cut", IN_STEPS[moment])


@pytest.mark.faults
def test_to_all_processes_while_readers_draw_evidence(tmp_path: Path) -> None:
    """A reader sends the signal to the whole process group."""
    command = [*longtail_command(make_photographs(tmp_path / "photographs")), "--workers", "1"]
    whole = Whole.of(command, tmp_path / "whole")
    assert_stops_and_goes_on(whole, tmp_path / "cut", [sent("energyalign.pytorch.balanced:_image") | {"group": True}])
