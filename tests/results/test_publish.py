"""A published run on digits: which files are kept, which are left out, and how our commands read it."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from energyalign.cli.main import main
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.stored import StoredRun, measured_runs
from energyalign.experiments.train.tensor_file import load_arrays

SCRIPT = Path(__file__).parents[2] / "results" / "publish.py"
PLAN = EvidencePlan(3, "none")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if not SCRIPT.exists():
        pytest.skip("results/ is in the repository, not in the source distribution")
    spec = importlib.util.spec_from_file_location("publish", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two epochs, with rows with and without shifts."""
    out = tmp_path_factory.mktemp("run")
    words = "longtail digits --epochs 2 --evidence-size 3 --evidence-policy none --corrector raw ea ncm tau-norm"
    main([*words.split(), "--out", str(out)])
    return out / "ce" / "seed-0"


@pytest.fixture(scope="module")
def target(script: ModuleType, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "digits" / "seed-0"
    script.publish(source, folder, without=["tau-norm"], plans=[PLAN, EvidencePlan(3, "half")])
    return folder


def only(folder: Path) -> StoredRun:
    (run,) = measured_runs([folder])
    return run


def test_rows_and_predictions_are_those_of_the_run(source: Path, target: Path) -> None:
    run, published = only(source), only(target)
    assert published.rows == [row for row in run.rows if row.corrector != "tau-norm"]
    for row in published.rows:
        np.testing.assert_array_equal(published.predictions(row), run.predictions(row))
    assert [path.name for path in (target / "predictions").iterdir()] == ["ncm.safetensors"]


def test_evidence_is_what_the_shifts_were_fitted_on(target: Path) -> None:
    assert [path.name for path in target.glob("evidence-*")] == ["evidence-none-3.safetensors"]
    arrays = load_arrays(target / "evidence-none-3.safetensors")
    assert np.bincount(arrays["labels"]).tolist() == [3] * 10
    energies = np.log(np.exp(arrays["logits"].astype(float)).mean(axis=0))
    row = only(target).row_of("ea")
    assert row is not None
    # The row has energies up to a constant.
    np.testing.assert_allclose(np.ptp(energies - np.array(row.energies_before)), 0, atol=0.02)


def test_commands_name_no_folder_of_this_machine(source: Path, target: Path) -> None:
    (command,) = only(target).commands
    assert command.startswith("energyalign longtail digits --epochs 2")
    assert command.endswith("--out OUT")
    assert str(source.parents[1]) not in command


def test_words_of_a_command(script: ModuleType) -> None:
    command = "energyalign longtail cifar100 --from /a/b/ce/seed-0 --data-root '/my data' --corrector ea"
    expected = "energyalign longtail cifar100 --from OUT/ce/seed-0 --data-root DATA --corrector ea"
    assert script.without_paths(command) == expected


def test_the_curve_has_every_epoch(target: Path) -> None:
    with (target / "curve.csv").open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["epoch"] for line in lines] == ["1", "2"]
    assert float(lines[1]["loss"]) < float(lines[0]["loss"])


def test_the_network_goes_on_under_other_correctors(source: Path, target: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(target, copy)
    sizes = [path.stat().st_size for run in (copy, source) for path in (run / "checkpoints").glob("epoch-00003-*")]
    assert len(sizes) == 2
    assert sizes[0] < 0.6 * sizes[1]  # no optimiser state
    main(["longtail", "digits", "--from", str(copy), "--corrector", "raw", "logit-adjustment"])
    run, before = only(copy), only(target)
    assert run.row_of("raw") == before.row_of("raw")
    assert run.row_of("logit-adjustment") is not None
    np.testing.assert_array_equal(run.outputs().labels, before.outputs().labels)


def test_what_cannot_be_published_is_refused(script: ModuleType, source: Path, target: Path, tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match="exists: remove it first"):
        script.publish(source, target)
    with pytest.raises(EnergyAlignError, match="is no run directory: give the folder of a seed"):
        script.publish(source.parent, tmp_path / "new")
    with pytest.raises(EnergyAlignError, match="has no rows besides"):
        script.publish(source, tmp_path / "new", without=["raw", "ea", "ncm", "tau-norm"])
    assert not (tmp_path / "new").exists()


def test_a_run_in_steps(script: ModuleType, tmp_path: Path) -> None:
    words = "incremental digits --learner distill --fed-back raw --corrector raw ea --epochs 1 --steps 2"
    words += " --evidence-size 3 --evidence-policy none"
    main([*words.split(), "--out", str(tmp_path / "steps")])
    (run,) = measured_runs([tmp_path / "steps"])
    target = tmp_path / "published"
    script.publish(run.path, target, plans=[PLAN])
    published = only(target)
    assert published.rows == run.rows
    for row in run.rows:
        np.testing.assert_array_equal(published.predictions(row), run.predictions(row))
    (evidence,) = target.rglob("evidence-*")  # at step 1 there is nothing to correct
    assert evidence == target / "step-02" / "evidence-none-3.safetensors"
    assert np.bincount(load_arrays(evidence)["labels"]).tolist() == [3] * 10
    with (target / "curve.csv").open(newline="", encoding="utf-8") as stream:
        assert [(line["step"], line["epoch"]) for line in csv.DictReader(stream)] == [("1", "1"), ("2", "1")]
    main(["incremental", "digits", "--from", str(target), "--corrector", "logit-adjustment"])  # trains nothing
    assert {row.corrector for row in only(target).rows} == {"raw", "ea", "logit-adjustment"}
