"""A run folder that is moved or removed, or loses its config.json, during a run: the run stops without losses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fault import ended
from killed_often import Whole, assert_ends_as

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("Moving or removing the files of a run stops it without loss", "losses"),
]

LONGTAIL = "longtail digits --corrector raw ea --epochs 3 --batch-size 64 --evidence-size 2 --out run"
TRAINING = {"in": "energyalign.experiments.train.loop:seed_torch", "at": 9}  # in the second epoch
EVIDENCE = {"in": "energyalign.experiments.engine.outputs:balanced_evidence", "at": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole.of(LONGTAIL.split(), tmp_path_factory.mktemp("longtail") / "whole")


def stopped(whole: Whole, folder: Path, hook: dict[str, Any]) -> str:
    """Return the last messages of the command."""
    code, told = ended(whole.arguments, folder, {"hooks": [hook]})
    assert code == 1, told
    assert "Traceback" not in told
    return told.splitlines()[-1]


@pytest.mark.parametrize("moment", [TRAINING, EVIDENCE], ids=["training", "evidence"])
def test_moved(whole: Whole, tmp_path: Path, moment: dict[str, Any]) -> None:
    cut = tmp_path / "cut"
    told = stopped(whole, cut, moment | {"move": ["run", "away"]})
    assert "was moved to" in told
    os.rename(cut / "away", cut / "run")
    assert_ends_as(whole, cut)


@pytest.mark.parametrize("moment", [TRAINING, EVIDENCE], ids=["training", "evidence"])
def test_removed(whole: Whole, tmp_path: Path, moment: dict[str, Any]) -> None:
    told = stopped(whole, tmp_path / "cut", moment | {"remove": "run"})
    assert "was removed during its run" in told
    made_again = list((tmp_path / "cut").rglob("checkpoints/*.safetensors"))
    assert len(made_again) == (moment is TRAINING)
    assert_ends_as(whole, tmp_path / "cut")


def test_without_config(whole: Whole, tmp_path: Path) -> None:
    (config,) = (name for name in whole.files if name.endswith("config.json"))
    told = stopped(whole, tmp_path / "cut", TRAINING | {"move": [config, "config-away.json"]})
    assert "config.json was removed during its run. It was written again" in told
    (tmp_path / "cut" / "config-away.json").unlink()
    assert_ends_as(whole, tmp_path / "cut")


def test_without_lock(whole: Whole, tmp_path: Path) -> None:
    """As users do who read that the folder is in use: another process could then enter it."""
    (config,) = (name for name in whole.files if name.endswith("config.json"))
    lock = str(Path(config).with_name(".lock"))
    told = stopped(whole, tmp_path / "cut", TRAINING | {"move": [lock, "lock-away"]})
    assert (
        ".lock was removed during its run, so another process could have used the folder. Everything is saved" in told
    )
    (tmp_path / "cut" / "lock-away").unlink()
    assert len(list((tmp_path / "cut").rglob("checkpoints/*.safetensors"))) == 2
    assert_ends_as(whole, tmp_path / "cut")


@pytest.mark.parametrize("name", ["checkpoints", "manifest.json"])
def test_without_what_was_made_before_the_evidence(whole: Whole, tmp_path: Path, name: str) -> None:
    """The network is lost; the same command would refuse the folder."""
    (config,) = (name for name in whole.files if name.endswith("config.json"))
    lost = str(Path(config).with_name(name))
    told = stopped(whole, tmp_path / "cut", EVIDENCE | {"move": [lost, "away"]})
    assert "Put them back, or remove " in told
    os.rename(tmp_path / "cut" / "away", tmp_path / "cut" / lost)
    assert_ends_as(whole, tmp_path / "cut")


MEASURED = {"in": "energyalign.experiments.engine.experiment:store_row", "at": 2}  # after the first row


@pytest.mark.parametrize(
    ("name", "said"),
    [("rows.jsonl", "rows.jsonl was removed or changed during its run"), ("test_logits.safetensors", "removed")],
)
def test_without_results(whole: Whole, tmp_path: Path, name: str, said: str) -> None:
    (lost,) = (file for file in whole.files if file.endswith(name))
    told = stopped(whole, tmp_path / "cut", MEASURED | {"move": [lost, "away"]})
    assert said in told
    (tmp_path / "cut" / "away").unlink()
    assert_ends_as(whole, tmp_path / "cut")
