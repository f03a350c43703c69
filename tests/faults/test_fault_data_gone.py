"""Missing data, also if they disappear during a run: one error names them, and the run can be resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fault import ended
from killed_often import Whole, assert_ends_as
from photographs import longtail_command, make_photographs

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("Moving or removing the files of a run stops it without loss", "losses"),
]


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    return make_photographs(tmp_path / "photographs")


def assert_one_error(code: int, told: str, *words: str) -> None:
    assert code == 2, told
    assert "Traceback" not in told
    last = told.splitlines()[-1]
    assert last.startswith("energyalign: error: ")
    assert all(word in last for word in words), last


def test_a_data_root_that_is_gone_before_the_start(photographs: Path, tmp_path: Path) -> None:
    whole = Whole.of(longtail_command(photographs), tmp_path / "whole")
    photographs.rename(tmp_path / "away")
    assert_one_error(*ended(whole.arguments, tmp_path / "whole"), str(photographs))
    (tmp_path / "away").rename(photographs)
    assert_ends_as(whole, tmp_path / "whole")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "moment",
    [
        ("energyalign.experiments.train.loop:seed_torch", 2),
        ("energyalign.experiments.engine.outputs:balanced_evidence", 1),
    ],
    ids=["training", "evidence"],
)
def test_images_that_go_away_in_mid_run(
    workers: int, moment: tuple[str, int], photographs: Path, tmp_path: Path
) -> None:
    arguments = [*longtail_command(photographs), "--workers", str(workers)]
    whole = Whole.of(arguments, tmp_path / "whole")
    shutil.copytree(photographs, tmp_path / "copy")
    where, at = moment
    hook = {"in": where, "at": at, "remove": str(photographs / "train")}
    assert_one_error(*ended(arguments, tmp_path / "cut", {"hooks": [hook]}), str(photographs / "train"))
    assert_one_error(*ended(arguments, tmp_path / "cut"), str(photographs))
    shutil.rmtree(photographs)
    (tmp_path / "copy").rename(photographs)
    assert_ends_as(whole, tmp_path / "cut")
