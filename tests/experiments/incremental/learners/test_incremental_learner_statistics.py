"""Streaming LDA and RanPAC: statistics of earlier classes are kept, and their images are not used again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from incremental_run import StopAt, bytes_of_steps, digits_config, run_digits
from safetensors.torch import load_file

from energyalign.core._io.signals import Interrupted
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.learners.statistics import RanPac, StreamingLda
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.presets import preset_for
from energyalign.experiments.nets.lda import LdaHead

LEARNERS = [StreamingLda(), RanPac(n_projected=100)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write features of six classes around different means."""
    rng = np.random.default_rng(0)
    means, labels = rng.normal(size=(6, 8)), np.repeat(np.arange(6), 20)

    def part() -> np.ndarray:
        return (means[labels] + 0.5 * rng.normal(size=(len(labels), 8))).astype(np.float32)

    path = tmp_path_factory.mktemp("features") / "x.npz"
    np.savez(path, x_train=part(), y_train=labels, x_test=part(), y_test=labels)
    return path


def on_features(file: Path, learner: Any, folder: Path, memory: str = "none") -> tuple[IncrementalExperiment, Any]:
    preset = replace(preset_for(f"features:{file}", 3), head="linear")
    config = IncrementalConfig.from_preset(preset, learner, seed=0, memory=MemoryPlan.parse(memory, 12))
    experiment = IncrementalExperiment(config)
    return experiment, experiment.run(folder, ["raw"])


def test_after_all_steps_slda_is_lda_of_all_samples(file: Path, tmp_path: Path) -> None:
    experiment, rows = on_features(file, StreamingLda(), tmp_path)
    train = experiment.stream.train
    expected = LdaHead(8, 6, 1e-4)
    expected.add(torch.stack([train.read(i) for i in range(len(train))]), torch.from_numpy(train.labels))
    stored = load_file(tmp_path / "step-03" / "network.safetensors")
    np.testing.assert_allclose(stored["head.weight"], expected.weight, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(stored["head.counts"], [20.0] * 6)
    assert rows[-1].overall > 0.8


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_a_memory_changes_nothing(file: Path, tmp_path: Path, learner: Any) -> None:
    """Exemplars of old classes were counted when they were new."""
    for memory in ("none", "random:12"):
        _, rows = on_features(file, learner, tmp_path / memory.replace(":", "-"), memory)
        assert rows[-1].overall > 0.8
    one, other = (load_file(tmp_path / name / "step-03" / "network.safetensors") for name in ("none", "random-12"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_a_backbone_is_trained_in_the_first_step_alone_and_a_run_goes_on_where_it_was(
    tmp_path: Path, learner: Any
) -> None:
    config = digits_config(learner, epochs=1, n_steps=2, batch_size=16, memory="none")
    whole = run_digits(tmp_path / "whole", config, per_class=8)
    with pytest.raises(Interrupted):
        run_digits(tmp_path / "stopped", config, reporter=StopAt("step 1 of 2", epoch=1, batch=2), per_class=8)
    assert run_digits(tmp_path / "stopped", config, per_class=8) == whole
    assert bytes_of_steps(tmp_path / "stopped") == bytes_of_steps(tmp_path / "whole")
    first, second = (load_file(tmp_path / "whole" / f"step-0{k}" / "network.safetensors") for k in (1, 2))
    assert all(torch.equal(value, second[name]) for name, value in first.items() if name.startswith("backbone."))
    assert whole[-1].old > 0.2  # nothing was forgotten: the value is 0 without a memory
