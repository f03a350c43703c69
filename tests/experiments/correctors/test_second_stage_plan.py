"""The inputs of the training loop from second stages: balanced batches, a new head, and rates as in the originals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from untrained_run import untrained_run

from energyalign.experiments.correctors.decoupling import ClassifierRetraining, LearnableWeightScaling
from energyalign.experiments.correctors.disalign import DistributionAlignment
from energyalign.experiments.correctors.mislas import LabelAwareSmoothing
from energyalign.experiments.correctors.oltr import Oltr
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.train import loop


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments of the training loop, which does not run."""
    seen: dict[str, Any] = {}

    class Untrained:
        def __init__(self, _fabric: Any, network: torch.nn.Module, **more: Any) -> None:
            seen.update(more, network=network, parameters=list(more["parameters"]))

        def finish(self) -> None:
            pass

    monkeypatch.setattr(loop, "TrainingLoop", Untrained)
    return seen


@pytest.mark.parametrize("corrector", [ClassifierRetraining(), LearnableWeightScaling(), Oltr(), LabelAwareSmoothing()])
def test_classes_take_turns(corrector: Any, handed: dict[str, Any], tmp_path: Path) -> None:
    corrector.correct(untrained_run(tmp_path), EvidencePlan(1))
    labels = np.concatenate([batch.labels.numpy() for batch in handed["batches"].epoch(1)])
    shares = np.bincount(labels, minlength=10)
    assert len(labels) == 342
    assert shares.max() - shares.min() <= 4  # the training set has from 124 images of a class down to 2


def test_disalign_takes_the_images_as_they_are(handed: dict[str, Any], tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    DistributionAlignment().correct(trained, EvidencePlan(1))
    labels = np.concatenate([batch.labels.numpy() for batch in handed["batches"].epoch(1)])
    np.testing.assert_array_equal(np.bincount(labels, minlength=10), trained.counts)
    head = handed["network"].head
    learned = {id(parameter) for parameter in handed["parameters"]}
    assert learned == {id(parameter) for parameter in head.parameters() if parameter.requires_grad}


def test_the_head_of_mislas_learns_slower_than_its_scales(handed: dict[str, Any], tmp_path: Path) -> None:
    LabelAwareSmoothing().correct(untrained_run(tmp_path), EvidencePlan(1))
    scales, slow = handed["parameters"]
    head = handed["network"].head
    assert scales["params"][0] is head.scales
    assert "lr_factor" not in scales
    assert slow["lr_factor"] == 0.05
    assert all(one is other for one, other in zip(slow["params"], head.head.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in slow["params"])


def test_the_new_head_of_crt_knows_nothing_of_the_old_one(handed: dict[str, Any], tmp_path: Path) -> None:
    heads = []
    for number, name in enumerate(("one", "other")):
        trained = untrained_run(tmp_path / name)
        torch.nn.init.constant_(trained.network.head.weight, float(number))
        ClassifierRetraining().correct(trained, EvidencePlan(1))
        heads.append(handed["network"].head.weight.detach().clone())
        assert not torch.equal(heads[-1], trained.network.head.weight)
    assert torch.equal(*heads)


def test_rates_and_constants_of_oltr(handed: dict[str, Any], tmp_path: Path) -> None:
    Oltr().correct(untrained_run(tmp_path, epochs=90), EvidencePlan(1))
    fast, slow = handed["parameters"]
    assert "lr_factor" not in fast
    assert slow["lr_factor"] == 0.1
    assert any(parameter is handed["network"].memory.centroids for parameter in slow["params"])
    recipe = handed["recipe"]
    assert recipe.epochs == 60
    rates = [recipe.lr(epoch) / recipe.lr(1) for epoch in (1, 20, 21, 40, 41, 60)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    network = handed["network"]
    assert (network.memory.reach, float(network.head.scale)) == (10.0, 16.0)
    assert (network.weight, network.repel, network.margin) == (0.01, 0.01, 10.0)
