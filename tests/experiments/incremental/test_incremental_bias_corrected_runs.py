"""BiC, WA, IL2M and ScaIL from data to rows: they learn, and an interruption changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits

from energyalign.core._io.signals import Interrupted
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.methods import METHODS


@pytest.mark.parametrize("name", ["bic", "wa", "il2m", "scail"])
def test_it_remembers_old_classes(name: str, tmp_path: Path) -> None:
    method = METHODS[name]
    learner = find_learner(method.learner)
    config = digits_config(learner, epochs=4, n_steps=2, memory=f"{method.memory}:40", corrector=method.corrector)
    assert config.head == "linear"
    assert config.fed_back == (name if name in ("bic", "wa") else "raw")
    rows = run_digits(tmp_path / "run", config, "raw", method.corrector)
    raw, row = rows[-2:]
    assert (raw.corrector, row.corrector, row.step) == ("raw", name, 2)
    assert row.overall > 0.6  # chance is 0.1
    assert row.old > max(0.3, raw.old)  # after this short training WA has 0.4 and the network as trained 0


@pytest.mark.parametrize("name", ["bic", "wa"])
def test_interrupted_runs_end_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Interrupted in step 2, which starts from step 1, and in step 3, which starts from a corrected network."""
    config = digits_config(find_learner(name), epochs=1, n_steps=3, corrector=name)
    run_digits(tmp_path / "whole", config, name)
    for step in (2, 3):
        with pytest.raises(Interrupted):
            run_digits(tmp_path / "cut", config, name, reporter=StopAt(f"step {step} of 3", epoch=1, batch=5))
    run_digits(tmp_path / "cut", config, name)
    assert bytes_of_steps(tmp_path / "cut") == bytes_of_steps(tmp_path / "whole")


def test_bic_is_refused_where_nothing_was_held_out(tmp_path: Path) -> None:
    config = digits_config(find_learner("fine-tune"), epochs=1)
    with pytest.raises(EnergyAlignError, match="bic needs images that were held out"):
        run_digits(tmp_path / "run", config, "bic")
    assert not (tmp_path / "run").exists()
