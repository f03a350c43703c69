"""Correctors with a second stage: they learn, change nothing else, and resume after an interruption."""

from __future__ import annotations

import copy
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.core._io.signals import Interrupted
from energyalign.experiments.correctors import CORRECTORS, find_corrector
from energyalign.experiments.correctors.second_stage import epochs_of_cell
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.presets import preset_for
from energyalign.experiments.train.reporter import Reporter

torch.set_num_threads(1)

PLAN = EvidencePlan(10)
NAMES = ["tau-norm", "ncm", "crt", "lws", "oltr", "disalign", "mislas", "repair"]
READ_EVIDENCE = ["tau-norm"]


def config(learner: str = "ce", epochs: int = 8) -> LongTailConfig:
    preset = preset_for("digits", 50)
    preset = replace(preset, head="linear", recipe=preset.recipe.lasting(epochs))
    return LongTailConfig.from_preset(preset, find_learner(learner), seed=0)


def run(settings: LongTailConfig, folder: Path, corrector: str, reporter: Reporter | None = None) -> Row:
    (row,) = LongTailExperiment(settings, reporter=reporter).run(folder, [corrector], PLAN)
    return row


class Stop(Reporter):
    """Reporter that stops after some batches: by a signal, which saves a checkpoint, or by an error, which does not."""

    def __init__(self, after: int, how: str) -> None:
        self.left, self.how = after, how

    def batch_done(self, position: Any, lr: float) -> None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            if self.how == "crash":
                raise MemoryError
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def eight_epochs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ce"
    run(config(), folder, "raw")
    return folder


@pytest.fixture(scope="module")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "short"
    run(config(epochs=2), folder, "raw")
    return folder


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("tau-norm", 0.4), ("ncm", 0.6), ("crt", 0.3), ("lws", 0.35), ("oltr", 0.6), ("disalign", 0.35),
        ("mislas", 0.35),
    ],
)  # fmt: skip
def test_it_learns(eight_epochs: Path, name: str, at_least: float) -> None:
    row = run(config(), eight_epochs, name)
    assert row.overall > at_least
    assert row.shifts is None
    assert (row.evidence is None) == (name not in READ_EVIDENCE)


def test_oltr_learns_in_two_stages(tmp_path: Path) -> None:
    settings = config("oltr-stage-1", 12)
    assert (settings.recipe.epochs, settings.head) == (4, "linear")
    first, second = (run(settings, tmp_path / "run", name) for name in ("raw", "oltr"))
    assert first.overall > 0.25
    assert second.overall > max(0.6, first.overall)
    assert second.details["epochs"] == 8


@pytest.mark.parametrize("how", ["signal", "crash"])
@pytest.mark.parametrize("name", ["crt", "lws", "oltr", "disalign", "mislas"])
def test_a_stage_that_was_stopped_ends_the_same(two_epochs: Path, tmp_path: Path, name: str, how: str) -> None:
    whole, cut = (shutil.copytree(two_epochs, tmp_path / kind) for kind in ("whole", "cut"))
    run(config(epochs=2), whole, name)
    with pytest.raises(Interrupted if how == "signal" else MemoryError):
        run(config(epochs=2), cut, name, Stop(3, how))
    assert (cut / "rows.jsonl").read_bytes() != (whole / "rows.jsonl").read_bytes()
    run(config(epochs=2), cut, name)
    assert_same(cut, whole, name)


@pytest.mark.parametrize(("after", "how"), [(2, "signal"), (16, "crash")])
def test_the_first_stage_of_oltr_stopped_ends_the_same(tmp_path: Path, after: int, how: str) -> None:
    settings = config("oltr-stage-1", 3)
    run(settings, tmp_path / "whole", "oltr")
    with pytest.raises(Interrupted if how == "signal" else MemoryError):
        run(settings, tmp_path / "cut", "oltr", Stop(after, how))
    run(settings, tmp_path / "cut", "oltr")
    assert_same(tmp_path / "cut", tmp_path / "whole", "oltr")


def assert_same(one: Path, other: Path, stage: str) -> None:
    for name in ("rows.jsonl", "test_logits.safetensors", f"{stage}/config.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    ends = (max((folder / stage / "checkpoints").iterdir()) for folder in (one, other))
    assert len({end.read_bytes() for end in ends}) == 1


def test_a_finished_stage_is_not_trained_again(two_epochs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(two_epochs, tmp_path / "run")
    row = run(config(epochs=2), folder, "crt")
    assert run(config(epochs=2), folder, "crt", Stop(1, "crash")) == row


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("learner", "head"), [("ce", "cosine"), ("manifold-mixup", "causal-norm"), ("bbn", "linear"), ("ride", "cosine")]
)
def test_the_network_stays_and_the_result_is_the_same_again(tmp_path: Path, name: str, learner: str, head: str) -> None:
    """For any learner and head; the run is untrained, which saves time."""
    trained = untrained_run(tmp_path / "one", head=head, learner=learner)
    trained = replace(trained, held_out=images_of_test(trained))
    before, modes = copy.deepcopy(trained.network.state_dict()), [m.training for m in trained.network.modules()]
    corrected = find_corrector(name).correct(trained, EvidencePlan(2))
    said = scores_of_test(trained, corrected)
    assert said.shape == (500, 10)
    assert said.dtype == np.float32
    assert np.isfinite(said).all()
    after = trained.network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert [m.training for m in trained.network.modules()] == modes
    assert all(p.requires_grad for p in trained.network.parameters())
    if learner == "ce":
        other = replace(untrained_run(tmp_path / "two", head=head), held_out=trained.held_out)
        again = scores_of_test(other, find_corrector(name).correct(other, EvidencePlan(2)))
        np.testing.assert_array_equal(said, again)


@pytest.mark.parametrize(
    ("learner", "part", "epochs"),
    [
        ("ce", 1 / 9, 10), ("ce", 1 / 18, 5), ("ce", 2 / 3, 60), ("ce", 1e-6, 1),
        ("oltr-stage-1", 2 / 3, 60), ("oltr-stage-1", 1 / 9, 10),
    ],
)  # fmt: skip
def test_parts_of_the_epochs_of_the_cell(learner: str, part: float, epochs: int) -> None:
    assert epochs_of_cell(config(learner, 90), part) == epochs


def test_all_are_in_the_registry_with_a_reference() -> None:
    for name in NAMES:
        assert CORRECTORS[name].description
        assert CORRECTORS[name].reference
        assert CORRECTORS[name].corrector.reads_evidence == (name in READ_EVIDENCE)
