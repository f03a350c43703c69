"""Run directories are found at any depth, read without changes, and refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_rows import long_tail_row, step_rows

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import find_runs, measured_runs
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import save_arrays


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a finished run with a stage below it, and an unfinished run."""
    finished, begun = tmp_path / "ce" / "seed-1", tmp_path / "ce" / "seed-0"
    rows = [long_tail_row("ce", "cifar10-lt-100", 0.5, counts=(3, 1)), long_tail_row("ea", "cifar10-lt-100", 0.6)]
    for path in (finished, begun, finished / "crt"):
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(rows[0].config.values))
    RunDirectory(finished).write_rows([row.to_json() for row in rows])
    return tmp_path


def test_a_folder_of_runs(folder: Path) -> None:
    found = find_runs([folder, folder / "ce" / "seed-1"])
    assert [run.path.name for run in found] == ["seed-0", "seed-1"]  # each once, and no stage
    assert [len(run.rows) for run in found] == [0, 2]
    assert [run.path.name for run in measured_runs([folder])] == ["seed-1"]


def test_rows_by_corrector(folder: Path) -> None:
    (run,) = measured_runs([folder])
    row = run.row_of("ea")
    assert row is not None
    assert row.overall == 0.6
    assert run.row_of("logit-adjustment") is None
    np.testing.assert_array_equal(run.counts(), [3, 1])


def test_rows_of_steps(folder: Path) -> None:
    path = folder / "ce" / "seed-1"
    rows = step_rows("ea", "cifar100-il-10", [1.0, 0.5])
    (path / "config.json").write_text(json.dumps(rows[0].config.values))
    RunDirectory(path).write_rows([row.to_json() for row in rows])
    (run,) = measured_runs([path])
    assert run.in_steps
    assert run.n_steps == 10
    assert [row.step for row in run.rows_at()] == [2]  # the last that was measured
    assert [row.step for row in run.rows_at(1)] == [1]


def test_commands_are_kept_once_each(folder: Path) -> None:
    path = folder / "ce" / "seed-1"
    for command in ("energyalign longtail a", "energyalign longtail b", "energyalign longtail a", ""):
        RunDirectory(path).note_command(command)
    (run,) = measured_runs([path])
    assert run.commands == ["energyalign longtail a", "energyalign longtail b"]


def test_logits_are_read_again_only_if_their_file_was_replaced(folder: Path) -> None:
    path = folder / "ce" / "seed-1" / "test_logits.safetensors"
    labels = np.array([0, 1])
    save_arrays(path, {"logits": np.float16([[2, 1], [2, 1]]), "labels": labels})
    (run,) = measured_runs([folder])
    first = run.outputs()
    assert first.logits.dtype == np.float32
    assert run.outputs().logits is first.logits
    with pytest.raises(ValueError, match="read-only"):
        first.logits[0] = 0  # others have the same array
    assert first.predictions([0.0, 0.5]).tolist() == [0, 0]
    assert first.predictions([0.0, 1.5]).tolist() == [1, 1]
    save_arrays(path, {"logits": np.float32([[0, 1], [0, 1]]), "labels": labels})
    assert run.outputs().logits.tolist() == [[0, 1], [0, 1]]
    path.unlink()
    with pytest.raises(EnergyAlignError, match="cannot read"):
        run.outputs()


@pytest.mark.parametrize(
    ("name", "change"), [("seed", lambda seed: seed + 1), ("recipe", lambda recipe: {**recipe, "epochs": 7})]
)
def test_a_config_that_is_not_that_of_its_rows(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    path = folder / "ce" / "seed-1" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {name: change(config[name])}))
    with pytest.raises(EnergyAlignError, match=r"seed-1/config\.json was changed after the run: its rows have other"):
        find_runs([folder])


def test_what_is_no_run(folder: Path) -> None:
    with pytest.raises(EnergyAlignError, match=r"nowhere: there is no such folder\. Give folders that energyalign"):
        find_runs([folder / "nowhere"])
    (folder / "empty").mkdir()
    with pytest.raises(EnergyAlignError, match="there is no run in it"):
        find_runs([folder / "empty"])
    with pytest.raises(EnergyAlignError, match=r"seed-0 has no rows yet: finish the run with the command"):
        measured_runs([folder / "ce" / "seed-0"])
    (folder / "ce" / "seed-0" / "config.json").write_text("{}")  # of something else
    assert [run.path.name for run in find_runs([folder])] == ["seed-1"]
