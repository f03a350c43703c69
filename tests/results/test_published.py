"""Every number in results/, computed again from the published logits."""

from __future__ import annotations

import csv
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from energyalign import Evidence, fit_shifts
from energyalign.core.calibration import measure_calibration
from energyalign.core.clusters import Clusters
from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.metrics import ClassScores
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.shifts import ShiftCorrector
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun, measured_runs, predictions_file, step_folder
from energyalign.experiments.incremental.config import IncrementalConfig, IncrementalRequest
from energyalign.experiments.longtail.config import LongTailConfig, LongTailRequest
from energyalign.experiments.train.checkpoint import newest_checkpoint
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays

RESULTS = Path(__file__).parents[2] / "results"
if not RESULTS.exists():
    pytest.skip("results/ is in the repository, not in the source distribution", allow_module_level=True)
RUNS = measured_runs([RESULTS])
HALF = 2.0**-8  # maximum effect of rounding to half precision on a logit below 16
EVERY_RUN = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.path.relative_to(RESULTS).as_posix())


def folder_of(run: StoredRun, row: Row) -> Path:
    return step_folder(run.path, row.step, in_steps=run.in_steps)


def evidence_file(run: StoredRun, row: Row) -> Path | None:
    """Return the file with the evidence of a row, if it is published."""
    plan = row.evidence
    path = None if plan is None else folder_of(run, row) / f"evidence-{plan.policy}-{plan.per_class}.safetensors"
    return path if path is not None and path.exists() else None


@EVERY_RUN
def test_its_config_is_still_written_as_it_was(run: StoredRun) -> None:
    stored = RunDirectory(run.path).read_json("config.json")
    assert stored is not None
    kind = IncrementalConfig if run.in_steps else LongTailConfig
    assert kind.from_json(stored).to_json() == stored  # on failure, give the new field `left_out_at(default)`


@EVERY_RUN
def test_every_row_follows_from_logits_and_shifts(run: StoredRun) -> None:
    for row in run.rows:
        logits, labels = run.outputs(row.step)
        counts = np.array(row.counts)
        if predictions_file(folder_of(run, row), row.corrector, row.evidence).exists():
            predictions = run.predictions(row)
        else:
            shifted = logits + np.array(row.shifts, dtype=np.float32)
            predictions = shifted.argmax(axis=1)
            np.testing.assert_array_equal(run.predictions(row), predictions)
            assert ClassScores(len(counts)).update(shifted, labels).balanced_top_k_accuracy == row.top5
            calibration = measure_calibration(shifted, labels)  # of logits that may be rounded
            measured = (calibration.ece, calibration.nll, calibration.brier)
            np.testing.assert_allclose((row.ece, row.nll, row.brier), measured, atol=HALF)
        right = predictions == labels
        per_class = np.bincount(labels, weights=right) / np.bincount(labels)
        assert np.mean(right) == row.overall
        assert per_class.mean() == row.balanced
        assert tuple(np.bincount(labels).tolist()) == row.test_counts
        assert f1_score(labels, predictions, average="macro") == pytest.approx(row.macro_f1)
        assert per_class.tolist() == list(row.per_class)
        groups = {"many": counts > 100, "medium": (counts <= 100) & (counts >= 20), "few": counts < 20}
        if run.in_steps:
            is_old = np.arange(len(counts)) < row.n_old
            groups = {"old": is_old, "new": ~is_old}
        for name, members in groups.items():
            assert getattr(row, name) == (per_class[members].mean() if members.any() else None)


@EVERY_RUN
def test_shifts_follow_from_the_published_evidence(run: StoredRun) -> None:
    compared = set()
    for row in run.rows:
        path, corrector = evidence_file(run, row), find_corrector(row.corrector)
        if path is None or not isinstance(corrector, ShiftCorrector):
            continue  # as at step 1, where there is nothing to correct
        arrays = load_arrays(path)
        evidence = Evidence.from_arrays(
            arrays["logits"].astype(np.float32), arrays["labels"].astype(np.int64), counts=row.counts, kind="training"
        )
        assert row.estimator is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # the row has its concerns
            # The choice of `auto` is taken from the row: it is not tested here.
            clusters = corrector.clusters if corrector.estimator != "auto" else row.clusters
            if run.in_steps and corrector.estimator != "auto":
                clusters = Clusters.old_new(range(row.n_old), len(row.counts))
            shifts = fit_shifts(evidence, estimator=row.estimator, clusters=clusters)
        np.testing.assert_allclose(shifts.values, row.shifts, atol=HALF, err_msg=str(row.key))
        compared.add((row.corrector, path))
    assert {corrector for corrector, _ in compared} >= {"ea", "ea-marginal", "ea-auto"}
    assert {path for _, path in compared} == set(run.path.rglob("evidence-*.safetensors"))


@EVERY_RUN
def test_the_network_is_that_of_the_rows_and_finished(run: StoredRun) -> None:
    kind, request = (
        (IncrementalConfig, IncrementalRequest) if run.in_steps else (LongTailConfig, LongTailRequest)
    )  # fmt: skip
    finished = request(dataset=run.config.values["dataset"], source=(str(run.path),)).finished()
    assert [each.config for each in finished] == [kind.from_json(dict(run.config.values))]
    assert {row.manifest for row in run.rows} == {run.manifest.sha256}
    assert len({(row.step, row.network_sha256) for row in run.rows}) == run.config.n_steps
    if not run.in_steps:
        folder = RunDirectory(run.path)
        checkpoint, problems = newest_checkpoint(folder.checkpoints, folder.config_sha256)
        assert checkpoint is not None
        assert not problems


@EVERY_RUN
def test_the_curve_ends_with_the_last_epoch(run: StoredRun) -> None:
    with (run.path / "curve.csv").open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    epochs = [(int(line["step"]), int(line["epoch"])) for line in lines]
    wanted = [(step, epoch) for step in range(1, run.config.n_steps + 1) for epoch in range(1, run.config.epochs + 1)]
    assert epochs == wanted[-len(epochs) :]
    assert all(0 < float(line["loss"]) < 20 and float(line["lr"]) > 0 for line in lines)


def test_no_path_of_a_machine_is_published() -> None:
    path_of_a_machine = re.compile(rb"(?<![\w.])(/(work|home|root|tmp|mnt|data|usr|Users)/|[A-Z]:\\\\)")
    for file in filter(Path.is_file, RESULTS.rglob("*")):
        assert not path_of_a_machine.search(file.read_bytes()), file


def test_all_of_it_is_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 60e6
    for run in RUNS:
        size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
        assert size <= (24e6 if run.in_steps else 12e6)
