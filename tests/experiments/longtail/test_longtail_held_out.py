"""Images held out from a long-tailed training, for correctors that need unseen images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from energyalign.cli.main import main
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import measured_runs
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment, load_data
from energyalign.experiments.longtail.presets import preset_for

DIGITS = ("longtail", "digits", "--epochs", "2")


def rows(folder: Path, *arguments: str) -> dict[tuple[str, str], Row]:
    assert main([*arguments, "--out", str(folder)]) == 0
    return {(run.path.parent.name, row.corrector): row for run in measured_runs([folder]) for row in run.rows}


def experiment(held_out: float, *, seed: int = 0) -> LongTailExperiment:
    return LongTailExperiment(LongTailConfig.from_preset(preset_for("digits", 50), seed=seed, held_out=held_out))


def test_they_are_a_share_of_each_class_and_not_trained_on() -> None:
    whole, data = load_data(experiment(0).config).train, experiment(0.25).data
    assert data.held_out is not None
    before, trained, held_out = (np.bincount(images.labels) for images in (whole, data.train, data.held_out))
    np.testing.assert_array_equal(trained + held_out, before)
    np.testing.assert_array_equal(held_out, np.maximum(1, np.round(before / 4)))
    np.testing.assert_array_equal(data.counts, trained)
    parts = [
        {image.numpy().tobytes() for image in images.read(range(len(images)))} for images in (data.train, data.held_out)
    ]
    assert not parts[0] & parts[1]


def test_they_are_the_same_for_every_seed() -> None:
    one, other = (experiment(0.1, seed=seed).data for seed in (0, 1))
    np.testing.assert_array_equal(one.train.labels, other.train.labels)
    assert one.train.read(range(20)).equal(other.train.read(range(20)))


def test_a_method_that_needs_them_has_its_own_training_with_its_own_control(tmp_path: Path) -> None:
    found = rows(tmp_path, *DIGITS, "--method", "ea", "repair")
    assert set(found) == {("ce", "ea"), ("ce-held-out", "raw"), ("ce-held-out", "repair")}
    whole, part = found["ce", "ea"], found["ce-held-out", "repair"]
    assert part.details["fitted_on"] == "held-out images"
    assert part.details["samples"] == 35
    assert part.evidence is None
    assert part.counts == whole.counts  # groups of classes follow the counts of the cell
    assert found["ce-held-out", "raw"].overall != whole.overall


def test_tables_name_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path, *DIGITS, "--method", "ea", "repair")
    capsys.readouterr()
    assert main(["table", "longtail", str(tmp_path), "--format", "json"]) == 0
    lines = [line["method"] for line in json.loads(capsys.readouterr().out)["lines"]]
    assert lines == ["ea", "ce (held out: 0.1) + raw", "repair"]


def test_all_rows_of_a_training_share_the_images_that_were_asked_for(tmp_path: Path) -> None:
    found = rows(tmp_path, *DIGITS, "--held-out", "0.2", "--corrector", "raw", "ea", "repair")
    assert set(found) == {("ce-held-out", name) for name in ("raw", "ea", "repair")}
    assert found["ce-held-out", "repair"].details["samples"] == 70


def test_a_corrector_that_needs_them_is_refused_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DIGITS, "--corrector", "raw", "repair", "--out", str(tmp_path / "runs")]) == 2
    assert "this run holds out none: train with --held-out 0.1" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("share", ["1", "-0.1", "nan"])
def test_a_share_that_is_none_is_refused(tmp_path: Path, share: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DIGITS, f"--held-out={share}", "--out", str(tmp_path / "runs")]) == 2
    assert f"the held-out share must be >= 0 and < 1, got {share}" in capsys.readouterr().err


def test_validation_images_serve_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for split, per_class in (("train", 30), ("val", 10), ("test", 10)):
        arrays[f"y_{split}"] = labels = np.repeat(np.arange(3), per_class)
        arrays[f"x_{split}"] = (np.eye(3)[labels] + rng.normal(size=(len(labels), 3))).astype(np.float32)
    np.savez(tmp_path / "x.npz", **arrays)
    command = ("longtail", f"features:{tmp_path}/x.npz", "--imbalance", "5", "--epochs", "2")
    found = rows(tmp_path / "runs", *command, "--method", "repair", "--corrector", "raw")
    assert set(found) == {("ce", "raw"), ("ce", "repair")}
    assert found["ce", "repair"].details["fitted_on"] == "validation images"
    assert found["ce", "repair"].details["samples"] == 30
