"""DisAlign: its weights and its head by hand, and which parameters its stage trains."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.experiments.correctors.disalign import DistributionAlignment, generalised_weights
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.nets.corrected_heads import CalibratedHead
from energyalign.experiments.nets.heads import CosineHead


def test_weights_by_hand() -> None:
    counts = torch.tensor([4.0, 1.0])
    assert generalised_weights(counts, 1.0).tolist() == pytest.approx([0.4, 1.6])
    assert generalised_weights(counts, 0.5).tolist() == pytest.approx([2 / 3, 4 / 3])
    assert generalised_weights(counts, 0.0).tolist() == [1.0, 1.0]


def test_calibrated_logits_by_hand() -> None:
    """The confidence is sigmoid(log 3) = 3/4."""
    linear = torch.nn.Linear(2, 2)
    linear.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.tensor([0.5, -1.0])})
    head = CalibratedHead(linear, 2, 2)
    assert head.confidence.weight.tolist() == [[pytest.approx(0.1)] * 2]
    head.confidence.weight.data = torch.tensor([[float(np.log(3)), 0.0]])
    head.confidence.bias.data = torch.zeros(1)
    features = torch.tensor([[1.0, -1.0]])
    torch.testing.assert_close(head(features), torch.tensor([[-0.5, -2.0]]) * 1.75)  # as it starts
    head.magnitudes.data, head.margins.data = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 4.0])
    torch.testing.assert_close(head(features), torch.tensor([[-0.5 * 2.5, -2.0 + 3.0]]))
    assert not head.train().head.training


def test_the_confidence_of_a_cosine_head_reads_normalised_features() -> None:
    head = CalibratedHead(CosineHead(2, 3), 2, 3)
    features = torch.tensor([[3.0, 4.0]])
    torch.testing.assert_close(head(features), head(features / 5.0))
    expected = torch.sigmoid(0.1 * (0.6 + 0.8) + head.confidence.bias)
    torch.testing.assert_close(head(features), (1 + expected) * head.head(features))


def test_weights_of_backbone_and_head_stay(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    corrected = DistributionAlignment(frozen_statistics=True).correct(trained, EvidencePlan(1))
    head = corrected.network.head
    for name, value in trained.network.head.state_dict().items():
        assert torch.equal(head.head.state_dict()[name], value)
    for name, value in trained.network.backbone.state_dict().items():
        assert torch.equal(corrected.network.backbone.backbone.state_dict()[name], value)
    magnitudes, margins = (np.array(corrected.details[name]) for name in ("magnitudes", "margins"))
    assert np.all(magnitudes != 1.0)
    assert np.all(margins != 0.0)
    features = trained.features(images_of_test(trained))
    logits = trained.scores(trained.network.head, features)
    confidence = 1 / (1 + np.exp(-features @ head.confidence.weight.detach().numpy().T - head.confidence.bias.item()))
    expected = (1 + confidence * magnitudes) * logits + confidence * margins
    np.testing.assert_allclose(scores_of_test(trained, corrected), expected, rtol=1e-3, atol=1e-4)


def test_the_loss_is_the_weighted_mean(tmp_path: Path) -> None:
    """On digits with 124 images of a class down to 2."""
    trained = untrained_run(tmp_path)
    batch = next(trained.ground.loader().epoch(1))
    logits = torch.randn(len(batch.labels), 10, generator=torch.Generator().manual_seed(0))
    loss = DistributionAlignment().loss(trained)(lambda _: logits, batch, 1)
    each = torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none").numpy()
    weights = (trained.counts**-1.2)[batch.labels.numpy()]
    assert float(loss) == pytest.approx(np.average(each, weights=weights), rel=1e-5)
    assert weights.max() / weights.min() > sqrt(10)
