"""Requests that depend on the images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.config import IncrementalRequest
from energyalign.experiments.longtail.config import LongTailRequest
from energyalign.experiments.train.recipe import SGD, Adam
from energyalign.experiments.train.run_directory import RunDirectory


def write_classes(folder: Path, side: int) -> None:
    rng = np.random.default_rng(0)
    for name in "abc":
        (folder / name).mkdir(parents=True)
        for i in range(5):
            Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(folder / name / f"{i}.png")


@pytest.mark.parametrize("kind", [LongTailRequest, IncrementalRequest])
@pytest.mark.parametrize(
    ("side", "options", "backbone"),
    [
        (20, {"quick": True}, "resnet8"),
        (20, {"quick": True, "backbone": "small-cnn"}, "small-cnn"),
        (20, {}, "resnet18"),
        (70, {"quick": True}, "resnet18"),
    ],
)
def test_quick_runs_on_small_images_of_ones_own_have_a_small_network(kind, side, options, backbone, tmp_path):
    write_classes(tmp_path, side)
    steps = {"steps": 2} if kind is IncrementalRequest else {}
    request = kind(dataset=f"folder:{tmp_path}", **steps, **options)
    assert {run.config.backbone for run in request.plan(request.load())} == {backbone}


@pytest.mark.parametrize(
    ("kind", "other"), [(LongTailRequest, IncrementalRequest), (IncrementalRequest, LongTailRequest)]
)
def test_a_finished_run_of_the_other_application_is_refused_by_name(kind, other, tmp_path):
    RunDirectory(tmp_path).write_json("config.json", other(dataset="digits").plan()[0].config.to_json())
    with pytest.raises(EnergyAlignError, match=f"is a run of `energyalign {other.command}`: use that command"):
        kind(dataset="digits", source=(str(tmp_path),)).finished()


@pytest.mark.parametrize(
    ("optimizer", "made"),
    [
        (None, Adam(1e-3, 0.0)),
        ("adam", Adam(1e-3, 0.0)),
        ("sgd", SGD(0.1, 0.9, 0.0)),
        ("sgd-plain", SGD(0.1, 0.0, 0.0)),
    ],
)
def test_the_optimizer_of_features(optimizer, made):
    assert LongTailRequest(dataset="features:x.npz", optimizer=optimizer).plan()[0].config.recipe.optimizer == made
