"""LwF, iCaRL and EEIL on digits, complete and interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits

from energyalign.core._io.signals import Interrupted
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.methods import find_method


def config_of(method: str, *, epochs: int) -> IncrementalConfig:
    """Return a config with two steps of five classes and the memory of the method."""
    chosen = find_method(method)
    memory = "none" if chosen.memory == "none" else f"{chosen.memory}:40"
    return digits_config(find_learner(chosen.learner), epochs=epochs, n_steps=2, memory=memory)


@pytest.mark.parametrize(("method", "overall", "old"), [("lwf", 0.55, 0.1), ("icarl", 0.9, 0.9), ("eeil", 0.75, 0.5)])
def test_better_than_chance_and_old_classes_are_remembered(
    tmp_path: Path, method: str, overall: float, old: float
) -> None:
    """Chance is 0.1; a network that knows only new classes has 0.5, and 0 on old classes."""
    row = run_digits(tmp_path / "run", config_of(method, epochs=6), find_method(method).corrector)[-1]
    assert row.overall > overall
    assert row.old > old


@pytest.mark.parametrize(
    ("method", "stages"), [("lwf", ["step 2"]), ("icarl", ["step 2"]), ("eeil", ["step 1", "step 2", "balanced"])]
)
def test_interrupted_it_ends_the_same(tmp_path: Path, method: str, stages: list[str]) -> None:
    """Interrupted in the middle of an epoch of each stage."""
    config, corrector = config_of(method, epochs=2), find_method(method).corrector
    run_digits(tmp_path / "whole", config, corrector)
    for name in stages:
        stage = "step 2 of 2 balanced" if name == "balanced" else f"{name} of 2"
        with pytest.raises(Interrupted):
            run_digits(tmp_path / "resumed", config, corrector, reporter=StopAt(stage, epoch=1, batch=3))
    run_digits(tmp_path / "resumed", config, corrector)
    assert bytes_of_steps(tmp_path / "resumed") == bytes_of_steps(tmp_path / "whole")
