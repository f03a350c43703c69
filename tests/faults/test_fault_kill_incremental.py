"""An incremental run that is killed at any moment ends with the bytes of an uninterrupted run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from killed_often import Whole, assert_ends_as, assert_survives_random_kills, killed

pytestmark = pytest.mark.promise("A killed command leaves every file either unchanged or complete", "kills")

SMALL = "--epochs 1 --batch-size 64 --evidence-size 2 --out run"
ALIGNED = f"incremental digits --steps 3 --learner distill --memory herding:20 --corrector ea {SMALL}"
OF_TWO_STAGES = {"eeil": f"incremental digits --steps 2 --method eeil {SMALL}",
                 "bic": f"incremental digits --steps 2 --method bic {SMALL}"}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Run with a memory chosen by features, and shifts that are fed back to the teacher."""
    return Whole.of(ALIGNED.split(), tmp_path_factory.mktemp("incremental") / "whole")


def test_killed_while_the_training_of_a_finished_step_is_removed(whole: Whole, tmp_path: Path) -> None:
    assert killed(whole, tmp_path / "cut", {"kill": "unlink", "at": 2})
    assert len(list((tmp_path / "cut").rglob(".training.part"))) == 1
    assert_ends_as(whole, tmp_path / "cut")


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(8))
def test_killed_three_times_at_random(seed: int, whole: Whole, tmp_path: Path, trials: Callable[[int], None]) -> None:
    trials(assert_survives_random_kills(whole, tmp_path / "cut", seed))


@pytest.mark.faults
@pytest.mark.parametrize("method", OF_TWO_STAGES)
def test_a_method_of_two_stages_killed_at_random(method: str, tmp_path: Path, trials: Callable[[int], None]) -> None:
    """With a balanced second stage, or with images held out for a corrector."""
    whole = Whole.of(OF_TWO_STAGES[method].split(), tmp_path / "whole")
    trials(sum(assert_survives_random_kills(whole, tmp_path / f"cut{seed}", seed) for seed in range(100, 102)))
