"""Incremental runs with two real processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from incremental_run import bytes_of_steps, digits_config, run_digits
from two_processes import in_processes

from energyalign import EnergyAlignError
from energyalign.experiments.incremental.learners import LEARNERS, find_learner

RUN = """
from incremental_run import StopAt, digits_config, run_digits
from energyalign.experiments.incremental.learners import find_learner
from energyalign.core._io.signals import Interrupted

def work(fabric, folder):
    def run(name, learner, *correctors, reporter=None, **settings):
        config = digits_config(find_learner(learner), epochs=2, n_steps=3, **settings)
        return run_digits(folder / name, config, *correctors, reporter=reporter, per_class=30, fabric=fabric)
"""
CUT = """
    settings = {"corrector": "ea", "memory": "herding:40"}
    run("whole", "distill", "raw", "ea", "nme", **settings)
    stop = StopAt("step 2 of 3", epoch=1, batch=2) if fabric.global_rank == 1 else None
    try:
        run("cut", "distill", "raw", "ea", "nme", reporter=stop, **settings)
    except Interrupted:
        pass
    else:
        raise AssertionError("it was not stopped")
    if fabric.global_rank == 0:
        import shutil
        shutil.copytree(folder / "cut", folder / "stopped")
    fabric.barrier()
    run("cut", "distill", "raw", "ea", "nme", **settings)
"""


def test_stopped_resumed_and_measured(tmp_path: Path) -> None:
    in_processes(RUN + CUT, tmp_path)
    whole = bytes_of_steps(tmp_path / "whole")
    assert bytes_of_steps(tmp_path / "cut") == whole

    config = digits_config(find_learner("distill"), epochs=2, n_steps=3, corrector="ea", memory="herding:40")
    correctors = ("raw", "ea", "nme")
    # One process may measure a run that two processes trained, with the same result.
    (tmp_path / "whole" / "rows.jsonl").unlink()
    run_digits(tmp_path / "whole", config, *correctors, per_class=30)
    assert bytes_of_steps(tmp_path / "whole") == whole

    # But it cannot resume the training, neither within a step nor with the next one.
    refusal = "began with 2 processes and cannot resume with 1"
    with pytest.raises(EnergyAlignError, match=refusal):
        run_digits(tmp_path / "stopped", config, *correctors, per_class=30)
    shutil.rmtree(tmp_path / "stopped" / "step-02")
    with pytest.raises(EnergyAlignError, match=refusal):
        run_digits(tmp_path / "stopped", config, *correctors, per_class=30)


EVERY = """
    for name in {names}:
        memory = {{"joint": "all", "lwf": "none"}}.get(name, "random:40")
        correctors = ["raw"] if memory == "none" else ["raw", "ea", "il2m", "scail", "wa", "logit-adjustment"]
        if name == "bic":
            correctors.append("bic")
        if name == "der":  # whose heads grow
            correctors.remove("scail")
        run(name, name, *correctors, corrector="bic" if name == "bic" else "raw", memory=memory)
"""


@pytest.mark.faults
def test_every_learner_runs_in_two_processes(tmp_path: Path) -> None:
    """Growing networks, several trainings per step, frozen and unused parts."""
    in_processes(RUN + EVERY.format(names=list(LEARNERS)), tmp_path)
    for name in LEARNERS:
        assert (tmp_path / name / "step-03" / "state.json").exists(), name
