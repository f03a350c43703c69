"""Long-tailed runs with two real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from digits_run import run_rows
from safetensors.torch import load_file
from two_processes import in_processes

from energyalign.experiments.longtail.methods import METHODS

RUN = """
from digits_run import run_rows

def work(fabric, folder):
    for names in {names}:
        rows = run_rows(names, folder / names[0], epochs={epochs}, fabric=fabric)
        assert [row.corrector for row in rows]
    if fabric.global_rank == 0:
        (folder / "rows.json").write_text(json.dumps([row.to_json() for row in rows]))
"""
OF_ONE_TRAINING = ["ce", "ea", "la-post-hoc", "tau-norm", "ncm", "crt"]


@pytest.mark.promise("Threads, processes and machines change no result", "environments")
def test_the_rows_are_those_of_one_process_that_measures_the_same_training(tmp_path: Path) -> None:
    in_processes(RUN.format(names=[OF_ONE_TRAINING], epochs=2), tmp_path)
    folder = tmp_path / "ce"
    stored = (folder / "rows.jsonl").read_bytes()
    logits = (folder / "test_logits.safetensors").read_bytes()
    (folder / "rows.jsonl").unlink()
    run_rows(OF_ONE_TRAINING, folder, epochs=2)
    assert (folder / "rows.jsonl").read_bytes() == stored
    assert (folder / "test_logits.safetensors").read_bytes() == logits


@pytest.mark.faults
def test_every_method_runs_in_two_processes(tmp_path: Path) -> None:
    """No method has parameters without gradients, or a forward pass on one rank only."""
    in_processes(RUN.format(names=[[name] for name in METHODS], epochs=2), tmp_path)
    for name in METHODS:
        assert load_file(max((tmp_path / name / "checkpoints").iterdir()))
        assert (tmp_path / name / "rows.jsonl").read_text()
