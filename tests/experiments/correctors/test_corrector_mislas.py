"""The second stage of MiSLAS: settings of the cell, and which parameters it trains."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.experiments.correctors.mislas import (
    PUBLISHED,
    LabelAwareSmoothing,
    label_aware_amounts,
    label_aware_loss,
)
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.recipe import SGD


def test_head_and_scales_are_trained_and_batch_statistics_move(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    corrected = LabelAwareSmoothing().correct(trained, EvidencePlan(1))
    head, before = corrected.network.head, trained.network
    assert not torch.equal(head.head.weight, before.head.weight)
    assert np.all(np.array(corrected.details["scales"]) != 1.0)
    after = corrected.network.backbone.backbone.state_dict()
    moved = {name for name, value in before.backbone.state_dict().items() if not torch.equal(after[name], value)}
    assert moved
    assert all(name.endswith(("running_mean", "running_var", "num_batches_tracked")) for name in moved)
    said = scores_of_test(trained, corrected)
    features = trained.features(images_of_test(trained), corrected.network.backbone.eval())
    logits = trained.scores(head.head, features)
    np.testing.assert_allclose(said, corrected.details["scales"] * logits, rtol=1e-3, atol=1e-4)


def test_settings_are_those_of_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = untrained_run(tmp_path)
    monkeypatch.setitem(PUBLISHED, trained.config.name, PUBLISHED["cifar10-lt-100"])  # type: ignore[arg-type]
    corrected = LabelAwareSmoothing().correct(trained, EvidencePlan(1))
    stage = json.loads((tmp_path / "mislas-frozen" / "config.json").read_text())["second_stage"]
    assert (stage["most_common"], stage["rarest"], stage["slower"]) == (0.3, 0.0, 0.5)
    for name, value in trained.network.backbone.state_dict().items():
        assert torch.equal(corrected.network.backbone.backbone.state_dict()[name], value)


def test_every_published_cell_is_one_of_ours() -> None:
    assert set(PUBLISHED) == {name for name in PRESETS if name.startswith("cifar")}


def test_the_loss_has_the_amounts_of_the_training_images(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    batch = next(trained.ground.loader().epoch(1))
    logits = torch.randn(len(batch.labels), 10, generator=torch.Generator().manual_seed(0))
    loss = LabelAwareSmoothing(most_common=0.4, rarest=0.1).loss(trained)(lambda _: logits, batch, 1)
    amounts = label_aware_amounts(torch.tensor(trained.counts, dtype=torch.float32), 0.4, 0.1)
    assert float(amounts[0]) == pytest.approx(0.4)
    torch.testing.assert_close(loss, label_aware_loss(logits, batch.labels, amounts))


def test_epochs_rate_and_weight_decay() -> None:
    def recipe(cell: str, **changes: object):  # type: ignore[no-untyped-def]
        config = LongTailConfig.from_preset(PRESETS[cell], find_learner("mixup"), seed=0)
        return replace(LabelAwareSmoothing(), **changes).recipe(config)

    assert recipe("cifar100-lt-100").epochs == 10
    assert recipe("cifar100-lt-100").optimizer == SGD(0.1, weight_decay=2e-4)
    assert recipe("inaturalist-200").epochs == 10
    assert recipe("inaturalist-200").optimizer == SGD(0.2, weight_decay=1e-4)
