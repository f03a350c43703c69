"""The protocols of ImageNet on a generated tree in the published layout, including top-5 accuracy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from imagenet_tree import make_imagenet_tree

from energyalign import EnergyAlignError
from energyalign.cli.main import main
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.orders import order_hash
from energyalign.experiments.incremental.presets import PRESETS, preset_for
from energyalign.experiments.incremental.stream import load_stream
from energyalign.experiments.train.tensor_file import load_arrays

# Drawn from 12 classes as the literature draws from 1,000.
ORDER = np.random.RandomState(1993).permutation(12).tolist()


def config_of(**changes: Any) -> IncrementalConfig:
    """Return a config with three small steps on ImageNet."""
    preset = preset_for("imagenet", 3)
    recipe = replace(preset.recipe.lasting(1), batch_size=12)
    preset = replace(preset, backbone="small-cnn", recipe=recipe, **changes)
    return IncrementalConfig.from_preset(
        preset, find_learner("distill"), seed=0, memory=MemoryPlan("random", 12), corrector="ea",
        evidence=EvidencePlan(1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """Write 12 classes of 2 training and 2 validation images; return their WordNet ids."""
    root = tmp_path_factory.mktemp("imagenet")
    return root, make_imagenet_tree(root, n_classes=12, per_class=2)


@pytest.fixture(scope="module")
def finished(tree: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Run three steps; return the run and its rows."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("run") / "run"
    return folder, IncrementalExperiment(config_of(), data_root=tree[0]).run(folder, ["raw", "ea"], EvidencePlan(1))


def test_three_steps_of_four_classes(finished: Any) -> None:
    folder, rows = finished
    assert [(row.step, row.corrector, row.n_old, row.n_new) for row in rows] == [
        (step, corrector, 4 * step - 4, 4) for step in (1, 2, 3) for corrector in ("raw", "ea")
    ]
    assert rows[-1].counts == (2,) * 4 + (1,) * 4 + (2,) * 4
    assert len(json.loads((folder / "step-03" / "state.json").read_text())["memory"]["exemplars"]) == 12


def test_top_5_is_over_all_classes_as_long_as_there_are_fewer(finished: Any) -> None:
    folder, rows = finished
    for row in rows:
        if row.step == 1:
            assert row.top5 == 1.0
        else:
            assert row.overall <= row.top5 <= 1.0
    for step in (2, 3):  # against an independent count
        stored = load_arrays(folder / f"step-0{step}" / "test_logits.safetensors")
        best = np.argsort(-stored["logits"], axis=1)[:, :5]
        expected = (best == stored["labels"][:, None]).any(axis=1).mean()
        (row,) = [row for row in rows if (row.step, row.corrector) == (step, "raw")]
        assert len(stored["labels"]) == 8 * step
        assert row.top5 == pytest.approx(expected)


def test_order_and_hash_are_in_every_row(finished: Any) -> None:
    for row in finished[1]:
        assert row.order == tuple(ORDER)
        assert order_hash(row.order) == order_hash(ORDER)
        assert (row.config.values["order"], row.config.values["subset"]) == ("seed1993", "all")


@pytest.mark.parametrize("flat_val", [False, True])
def test_class_numbers_follow_the_sorted_ids_in_both_layouts(flat_val: bool, tree: Any, tmp_path: Path) -> None:
    if flat_val:
        root, wnids = tmp_path, make_imagenet_tree(tmp_path, n_classes=12, per_class=2, flat_val=True)
    else:
        root, wnids = tree
    stream = load_stream(config_of(), root)
    assert stream.train.class_names == stream.test.class_names == tuple(wnids[k] for k in ORDER)
    assert wnids == tuple(sorted(wnids))
    for i, label in enumerate(stream.train.labels):
        assert Path(stream.train.file_name(i)).parent.name == wnids[ORDER[label]]
    # By index, which is the same in both layouts.
    by_file = {Path(stream.test.file_name(i)).name: int(label) for i, label in enumerate(stream.test.labels)}
    folders = {path.name: path.parent.name for path in tree[0].glob("val/*/*.JPEG")}
    assert {name: wnids[ORDER[label]] for name, label in by_file.items()} == folders


def test_a_subset_in_the_order_of_its_own_positions(tree: Any) -> None:
    root, wnids = tree
    stream = load_stream(config_of(subset="first:6"), root)
    assert stream.sizes == (2, 2, 2)
    assert stream.order == tuple(np.random.RandomState(1993).permutation(6).tolist())
    assert set(stream.train.class_names) == set(wnids[:6])


def test_imagenet100_is_drawn_from_1000_classes(tree: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert PRESETS["imagenet100-il-10"].subset == "seed1993"
    with pytest.raises(EnergyAlignError, match="'seed1993' is drawn from 1,000 classes, and this data set has 12"):
        load_stream(config_of(subset="seed1993"), tree[0])
    out = tmp_path / "run"
    assert main(["incremental", "imagenet100", "--data-root", str(tree[0]), "--out", str(out)]) == 2
    assert "choose all or first:N" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_on_files(tree: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--steps", "2", "--subset", "first:4", "--memory", "4", "--epochs", "1", "--batch-size", "6"]
    options += ["--backbone", "small-cnn", "--corrector", "raw", "--workers", "0", "--data-root", str(tree[0])]
    assert main(["incremental", "imagenet", *options, "--out", str(tmp_path)]) == 0
    assert "imagenet-il-2-first-4" in capsys.readouterr().out
    assert (tmp_path / "distill-random-4" / "seed-0" / "rows.jsonl").exists()
