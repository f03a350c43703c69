"""A long-tailed run that is killed at any moment ends with the bytes of an uninterrupted run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed_often import Whole, assert_ends_as, assert_survives_random_kills, killed

pytestmark = pytest.mark.promise("A killed command leaves every file either unchanged or complete", "kills")

COMMAND = "longtail digits --head linear --corrector raw ea crt --epochs 3 --batch-size 64 --evidence-size 2 --out run"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Run with a second stage (cRT)."""
    return Whole.of(COMMAND.split(), tmp_path_factory.mktemp("longtail") / "whole")


def test_killed_between_the_write_and_the_rename_of_a_checkpoint(whole: Whole, tmp_path: Path) -> None:
    assert killed(whole, tmp_path / "cut", {"kill": "replace", "at": 5})
    left = [path.name for path in (tmp_path / "cut").rglob("checkpoints/.*.safetensors.part")]
    assert len(left) == 1, "it was not inside the write of a checkpoint"
    assert_ends_as(whole, tmp_path / "cut")


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(8))
def test_killed_three_times_at_random(seed: int, whole: Whole, tmp_path: Path, trials: Callable[[int], None]) -> None:
    trials(assert_survives_random_kills(whole, tmp_path / "cut", seed))


@pytest.mark.faults
@pytest.mark.parametrize(
    "fault",
    [{"kill": "write", "at": 4}, {"kill": "write", "at": 8}, {"kill": "unlink", "at": 1}, {"kill": "fsync", "at": 9}],
    ids=["half a checkpoint", "half of the logits or rows", "old checkpoint not dropped", "renamed, not synced"],
)
def test_killed_at_the_moments_that_are_short(fault: dict[str, Any], whole: Whole, tmp_path: Path) -> None:
    assert killed(whole, tmp_path / "cut", fault)
    assert_ends_as(whole, tmp_path / "cut")


@pytest.mark.faults
def test_killed_in_its_first_write_then_in_its_second_and_so_on(
    whole: Whole, tmp_path: Path, trials: Callable[[int], None]
) -> None:
    kills = 0
    while killed(whole, tmp_path / "cut", {"kill": "write", "at": kills + 1}):
        kills += 1
    assert kills >= 5
    assert_ends_as(whole, tmp_path / "cut")
    trials(kills)
