"""Digits cut to a long tail, from data to rows: files, gains, and reproducible results."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
from PIL import Image
from scipy.special import softmax
from torch.nn.functional import cross_entropy

from energyalign import EnergyAlignError
from energyalign.core.errors import CannotGoOn
from energyalign.core.metrics import balanced_standard_error
from energyalign.experiments.correctors import STANDARD, find_corrector
from energyalign.experiments.correctors.shifts import ShiftCorrector
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment, Setting, load_data
from energyalign.experiments.longtail.learners import CrossEntropy
from energyalign.experiments.longtail.presets import preset_for
from energyalign.experiments.train.loop import Loss
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.tensor_file import load_arrays
from energyalign.report.tables.own import longtail_table, matrix_table

torch.set_num_threads(1)
correct = ShiftCorrector.correct


def config(seed: int = 0) -> LongTailConfig:
    return LongTailConfig.from_preset(preset_for("digits", 50), seed=seed)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    folder = tmp_path_factory.mktemp("runs") / "seed-0"
    return folder, LongTailExperiment(config()).run(folder, list(STANDARD), EvidencePlan(20))


def test_correction_helps_the_tail_more_than_it_costs_the_head(finished: tuple[Path, list[Row]]) -> None:
    rows = {row.corrector: row for row in finished[1]}
    raw = rows["raw"]
    for name in ("logit-adjustment", "ea", "ea-marginal", "ea-auto"):
        assert rows[name].overall > raw.overall + 0.03
        assert rows[name].few - raw.few > raw.many - rows[name].many


def test_rows_hold_what_is_needed_to_check_them(finished: tuple[Path, list[Row]]) -> None:
    folder, rows = finished
    stored = load_arrays(folder / "test_logits.safetensors")
    for row in rows:
        corrected = stored["logits"] + np.array(row.shifts, dtype=np.float32)
        right = corrected.argmax(1) == stored["labels"]
        assert (row.overall, row.balanced) == pytest.approx((right.mean(), right.mean()))  # 50 images of every class
        assert row.has_balanced_test
        per_class = [right[stored["labels"] == k].mean() for k in range(10)]
        np.testing.assert_allclose(row.per_class, per_class)
        few = np.array(row.counts) < 20
        assert row.few == pytest.approx(np.mean(np.array(per_class)[few]))
        assert len(row.standard_errors) == 10
        assert len(row.manifest) == 64
        assert row.versions["torch"] == torch.__version__
    marginal = next(row for row in rows if row.corrector == "ea-marginal")
    difference = np.array(marginal.energies_after) - np.array(marginal.energies_before)
    np.testing.assert_allclose(difference, marginal.shifts)


def test_files_of_a_run(finished: tuple[Path, list[Row]]) -> None:
    folder, rows = finished
    lines = (folder / "rows.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["corrector"] for line in lines) == sorted(STANDARD)
    assert json.loads((folder / "config.json").read_text())["recipe"]["optimizer"]["kind"] == "SGD"
    assert json.loads((folder / "manifest.json").read_text())["sha256"] == rows[0].manifest


def test_the_same_command_gives_the_same_bytes(tmp_path: Path) -> None:
    short = replace(config(), recipe=config().recipe.lasting(3))
    for folder in ("once", "again"):
        LongTailExperiment(short).run(tmp_path / folder, list(STANDARD), EvidencePlan(20))
    for name in ("rows.jsonl", "manifest.json", "config.json", "test_logits.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "once" / name).read_bytes()


def test_going_on_in_another_environment_is_said_and_rows_name_both(tmp_path: Path) -> None:
    class Notes(Reporter):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def note(self, message: str) -> None:
            self.lines.append(message)

    def run(*correctors: str) -> tuple[dict[str, Row], str]:
        notes = Notes()
        rows = LongTailExperiment(short, reporter=notes).run(tmp_path / "run", correctors, EvidencePlan(20))
        return {row.corrector: row for row in rows}, "\n".join(notes.lines)

    short = replace(config(), recipe=config().recipe.lasting(1))
    threads = torch.get_num_threads()
    first, said = run("raw")
    assert [one["threads"] for one in first["raw"].environments] == [threads]
    assert "environment" not in said
    torch.set_num_threads(threads + 1)
    try:
        second, said = run("raw", "ea")
        _, again = run("raw", "ea")
    finally:
        torch.set_num_threads(threads)
    assert f"is resumed in another environment: threads is {threads} there and {threads + 1} here." in said
    assert "environment" not in again
    assert second["raw"] == first["raw"]  # measured before
    assert [one["threads"] for one in second["ea"].environments] == [threads, threads + 1]
    assert second["ea"].environments[0] == first["raw"].environments[0]
    stored = json.loads((tmp_path / "run" / "rows.jsonl").read_text().splitlines()[0])
    assert stored["corrector"] == "ea"
    assert stored["environments"] == list(second["ea"].environments)


def test_other_correctors_join_the_rows_of_a_finished_run(finished: tuple[Path, list[Row]]) -> None:
    folder, _ = finished
    new = LongTailExperiment(config()).run(folder, ["ea-M2", "raw"], EvidencePlan(20))
    assert new[0].n_clusters == 2
    assert new[0].clusters == "jenks-2"
    stored = [json.loads(line)["corrector"] for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert sorted(stored) == sorted([*STANDARD, "ea-M2"])


def test_several_kinds_of_evidence_are_several_rows_of_what_looks_at_it(finished: tuple[Path, list[Row]]) -> None:
    plans = [EvidencePlan(20), EvidencePlan(5, "training")]
    rows = LongTailExperiment(config()).run(finished[0], ["raw", "ea-marginal"], *plans)
    assert [row.corrector for row in rows] == ["raw", "ea-marginal", "ea-marginal"]
    assert rows[1].shifts != rows[2].shifts
    lines = longtail_table(rows).lines
    assert [line.method for line in lines] == ["raw", "ea-marginal, training x 5", "ea-marginal, two x 20"]
    assert [line.cells[4].mean for line in lines] == [1, 1, 1]  # seeds


def test_a_folder_of_photographs_of_any_size(tmp_path: Path) -> None:
    """Large images are processed differently from digits in training, evidence and evaluation."""
    rng = np.random.default_rng(0)
    for split, sizes in (("train", (6, 3)), ("test", (2, 2))):
        for label, n in enumerate(sizes):
            folder = tmp_path / "images" / split / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = rng.integers(0, 100, (70 + 5 * i, 90 - 3 * i, 3)) + 150 * label
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{i}.jpg")
    preset = preset_for(f"folder:{tmp_path / 'images'}", None)
    preset = replace(preset, recipe=replace(preset.recipe.lasting(1), batch_size=5))
    experiment = LongTailExperiment(LongTailConfig.from_preset(preset, seed=0), workers=1)
    rows = experiment.run(tmp_path / "run", ["raw", "logit-adjustment"], EvidencePlan(4))
    assert [row.counts for row in rows] == [(6, 3)] * 2
    np.testing.assert_allclose(np.diff(rows[1].shifts), np.log(2))


def test_another_seed_is_another_run(finished: tuple[Path, list[Row]]) -> None:
    with pytest.raises(EnergyAlignError, match="seed is 0 there and 1 here"):
        LongTailExperiment(config(1)).run(finished[0], ["raw"], EvidencePlan(20))


def test_an_unknown_corrector_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match="unknown corrector 'magic': choose raw, logit-adjustment, ea"):
        LongTailExperiment(config()).run(tmp_path / "run", ["magic"], EvidencePlan())
    assert not (tmp_path / "run").exists()


def test_a_number_of_clusters_is_a_corrector() -> None:
    assert find_corrector("ea-M8") == ShiftCorrector("lse", 8)
    with pytest.raises(EnergyAlignError, match="unknown corrector 'ea-M0'"):
        find_corrector("ea-M0")


def test_what_cannot_be_leaves_no_run_directory(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for wrong, message in (
        ({"backbone": "alexnet"}, "unknown backbone 'alexnet'"),
        ({"head": "round"}, "unknown head 'round'"),
    ):
        with pytest.raises(EnergyAlignError, match=message):
            LongTailExperiment(replace(config(), **wrong)).run(folder, ["raw"])
    with pytest.raises(EnergyAlignError, match=r"clusters must be <= 10, the number of .* counts, got 11"):
        LongTailExperiment(config()).run(folder, ["raw", "ea-M11"])
    assert not folder.exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "the seed must be >= 0, got -1"),
        ({"imbalance": 0.0}, "must be >= 1, got 0"),
        ({"imbalance": float("nan")}, "must be >= 1, got nan"),
        ({"scale": float("nan")}, "the scale must be a positive number, got nan"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        replace(config(), **wrong)


def test_a_profile_needs_an_imbalance() -> None:
    own = preset_for("folder:somewhere", None)
    assert LongTailConfig.from_preset(own, seed=0).profile == "natural"
    with pytest.raises(EnergyAlignError, match="has no imbalance: give one with the profile"):
        LongTailConfig.from_preset(own, seed=0, profile="step")


def write_images(folder: Path, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    for name, n in sizes.items():
        (folder / name).mkdir(parents=True)
        for i in range(n):
            Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(folder / name / f"{i}.png")


def of_own_images(folder: Path) -> LongTailConfig:
    preset = preset_for(f"folder:{folder}", None)
    recipe = replace(preset.recipe.lasting(1), batch_size=8)
    return LongTailConfig.from_preset(replace(preset, backbone="small-cnn", recipe=recipe), seed=0)


def test_a_class_without_test_images_is_missing_and_the_rest_is_measured(tmp_path: Path) -> None:
    write_images(tmp_path / "images" / "train", {"a": 6, "b": 4, "c": 3})
    write_images(tmp_path / "images" / "test", {"a": 2, "c": 2})
    (row,) = LongTailExperiment(of_own_images(tmp_path / "images")).run(tmp_path / "run", ["raw"], EvidencePlan(2))
    assert row.per_class[1] is None
    assert row.few == pytest.approx((row.per_class[0] + row.per_class[2]) / 2)


def test_a_run_is_not_continued_on_other_data(tmp_path: Path) -> None:
    write_images(tmp_path / "images" / "train", {"a": 6, "b": 4})
    write_images(tmp_path / "images" / "test", {"a": 2, "b": 2})
    settings = of_own_images(tmp_path / "images")
    LongTailExperiment(settings).run(tmp_path / "run", ["raw"], EvidencePlan(2))
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    shutil.copy(tmp_path / "images/train/b/0.png", tmp_path / "images/train/b/more.png")
    with pytest.raises(EnergyAlignError, match="have changed since the run"):
        LongTailExperiment(settings).run(tmp_path / "run", ["raw", "logit-adjustment"], EvidencePlan(2))
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before


def test_nor_measured_on_another_test_set(tmp_path: Path) -> None:
    write_images(tmp_path / "images" / "train", {"a": 6, "b": 4})
    write_images(tmp_path / "images" / "test", {"a": 2, "b": 2})
    settings = of_own_images(tmp_path / "images")
    LongTailExperiment(settings).run(tmp_path / "run", ["raw"], EvidencePlan(2))
    shutil.copy(tmp_path / "images/train/b/0.png", tmp_path / "images/test/b/0.png")
    with pytest.raises(EnergyAlignError, match="have changed since the run"):
        LongTailExperiment(settings).run(tmp_path / "run", ["logit-adjustment"], EvidencePlan(2))


def test_rows_are_stored_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a corrector are kept if the next one fails or is stopped."""
    short = replace(config(), recipe=config().recipe.lasting(1))

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ShiftCorrector, "correct", lambda *a: fail() if a[0].estimator == "lse" else correct(*a))
    with pytest.raises(KeyboardInterrupt):
        LongTailExperiment(short).run(tmp_path / "run", ["raw", "ea", "logit-adjustment"], EvidencePlan(2))
    assert [json.loads(line)["corrector"] for line in (tmp_path / "run/rows.jsonl").read_text().splitlines()] == ["raw"]


def test_a_manifest_that_is_changed_during_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the same command would refuse the folder later."""
    short, manifest = replace(config(), recipe=config().recipe.lasting(1)), tmp_path / "run" / "manifest.json"
    correct = ShiftCorrector.correct

    def change(*arguments: Any) -> Any:
        manifest.write_text("{}")
        return correct(*arguments)

    monkeypatch.setattr(ShiftCorrector, "correct", change)
    with pytest.raises(CannotGoOn, match=r"manifest\.json was changed during its run\. It was written again"):
        LongTailExperiment(short).run(tmp_path / "run", ["ea"], EvidencePlan(2))
    monkeypatch.undo()
    assert len(LongTailExperiment(short).run(tmp_path / "run", ["ea"], EvidencePlan(2))) == 1


class Smoothed(CrossEntropy):
    """A user's own learner, like the one in docs/adding-a-method.md."""

    name = "smoothed"

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        return lambda model, batch, _epoch: cross_entropy(model(batch.images), batch.labels, label_smoothing=0.1)


def test_a_learner_of_ones_own_needs_no_registry(tmp_path: Path) -> None:
    preset = preset_for("digits", 50)
    settings = LongTailConfig.from_preset(replace(preset, recipe=preset.recipe.lasting(2)), Smoothed(), seed=0)
    rows = LongTailExperiment(settings).run(tmp_path / "run", ["raw", "ea"], EvidencePlan(5))
    assert [line.method for line in longtail_table(rows).lines] == ["raw", "ea"]
    assert [line.method for line in matrix_table(rows).lines] == ["smoothed"]


def test_half_precision_trains_and_is_measured(tmp_path: Path) -> None:
    settings = replace(config(), recipe=config().recipe.lasting(1), precision="bf16-true")
    (row,) = LongTailExperiment(settings).run(tmp_path / "run", ["raw"], EvidencePlan(2))
    assert row.config.values["precision"] == "bf16-true"
    with pytest.raises(EnergyAlignError, match="precision is"):
        LongTailExperiment(replace(settings, precision="32-true")).run(tmp_path / "run", ["raw"], EvidencePlan(2))


def test_an_imbalanced_test_set_is_not_the_measure_of_all_classes(tmp_path: Path) -> None:
    short = replace(config(), recipe=config().recipe.lasting(1))
    data = load_data(short)
    totals = [50, 30, 20, 10, 10, 5, 5, 5, 2, 1]
    kept = np.concatenate([np.flatnonzero(data.test.labels == k)[:n] for k, n in enumerate(totals)])
    experiment = LongTailExperiment(short, data=data._replace(test=data.test.subset(kept)))
    raw, ncm, tempered = experiment.run(tmp_path, ["raw", "ncm", "raw+ts"], EvidencePlan(5))
    stored = load_arrays(tmp_path / "test_logits.safetensors")
    logits, labels = stored["logits"], stored["labels"]
    predicted = logits.argmax(axis=1)
    assert raw.test_counts == tuple(totals)
    assert not raw.has_balanced_test
    assert raw.overall == pytest.approx(np.mean(predicted == labels))
    assert raw.balanced == pytest.approx(sklearn.metrics.balanced_accuracy_score(labels, predicted))
    assert raw.balanced != pytest.approx(raw.overall, abs=1e-3)
    assert raw.macro_f1 == pytest.approx(sklearn.metrics.f1_score(labels, predicted, average="macro"))
    assert raw.nll == pytest.approx(sklearn.metrics.log_loss(labels, softmax(logits.astype(float), axis=1)))
    assert raw.standard_error == pytest.approx(balanced_standard_error(raw.per_class, totals))
    assert (ncm.ece, ncm.nll, ncm.brier) == (None, None, None)  # distances are no logits
    assert (tempered.balanced, tempered.per_class) == (raw.balanced, raw.per_class)
    scaled = softmax(logits.astype(float) / tempered.details["temperature"], axis=1)
    assert tempered.nll == pytest.approx(sklearn.metrics.log_loss(labels, scaled), rel=1e-4)
    assert tempered.evidence == EvidencePlan(5)
    table = longtail_table([raw, ncm, tempered])
    assert [column.title for column in table.columns][:3] == ["balanced", "macro-F1", "overall"]
    assert [cell.mean for cell in table.lines[0].cells[:3]] == pytest.approx(
        [100 * raw.balanced, 100 * raw.macro_f1, 100 * raw.overall]
    )
