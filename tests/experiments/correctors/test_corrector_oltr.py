"""The second stage of OLTR: its start and its training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F
from untrained_run import untrained_run

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors.oltr import Oltr
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.nets.heads import make_head
from energyalign.experiments.nets.oltr import MetaEmbedding, OltrNetwork
from energyalign.experiments.nets.registry import Backbone


def test_two_classes_by_hand() -> None:
    """Logits and loss of one image, compared with NumPy."""
    x, c = np.array([3.0, 4.0]), np.array([[0.0, 4.0], [3.0, 2.0]])
    recall, select = np.array([[0.1, 0.0], [0.0, 0.2]]), np.array([[0.3, 0.0], [0.1, -0.2]])
    w = np.array([[1.0, 0.0], [3.0, 4.0]])
    shares = np.exp(recall @ x) / np.exp(recall @ x).sum()
    v, e = shares @ c, np.tanh(select @ x)
    embedding = 10 / 2 * (x + e * v)  # the nearest centroid is the second, at a distance of 2
    length = np.linalg.norm(embedding)
    cosines = w @ embedding / (length * np.linalg.norm(w, axis=1))
    z = 16 * length / (1 + length) * cosines
    cross_entropy = np.log(np.exp(z).sum()) - z[0]
    attract, repel = 9 / 2, max(0.0, 10 - 4)  # squared distances: 9 to the centroid of its own class, 4 to the other

    memory = MetaEmbedding(torch.tensor(c).float())
    head = make_head("capsule", 2, 2, scale=16.0)
    with torch.no_grad():
        for linear, values in ((memory.recall, recall), (memory.select, select)):
            linear.weight.copy_(torch.tensor(values))
            linear.bias.zero_()
        head.weight.copy_(torch.tensor(w))
    network = OltrNetwork(nn.Identity(), memory, head, weight=0.01, repel=0.01, margin=10.0)
    image, label = torch.tensor(x).float()[None], torch.tensor([0])
    np.testing.assert_allclose(network(image)[0].detach(), z, rtol=1e-5)
    loss = network(image, label)
    np.testing.assert_allclose(loss.item(), cross_entropy + 0.01 * (attract + 0.01 * repel), rtol=1e-5)


def test_cross_entropy_does_not_move_the_centroids() -> None:
    memory = MetaEmbedding(torch.randn(3, 4))
    network = OltrNetwork(nn.Identity(), memory, make_head("capsule", 4, 3), weight=0.0, repel=0.0, margin=0.0)
    F.cross_entropy(network(torch.randn(5, 4)), torch.tensor([0, 1, 2, 0, 1])).backward()
    assert memory.centroids.grad is None
    assert float(memory.recall.weight.grad.abs().sum()) > 0


def test_where_it_starts_from_and_what_it_trains(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path, epochs=2)
    oltr = Oltr()
    network = oltr._make_network(trained)
    for k in range(10):
        mean = trained.train_features[trained.train.labels == k].astype(np.float64).mean(0)
        np.testing.assert_allclose(network.memory.centroids[k].detach(), mean, rtol=1e-5, atol=1e-7)
    assert torch.equal(network.memory.recall.weight, trained.network.head.weight)
    assert torch.equal(network.memory.recall.bias, trained.network.head.bias)
    corrected = oltr.correct(trained, EvidencePlan())
    assert corrected.details == {"epochs": 1}
    tensors = load_file(max((tmp_path / "oltr" / "checkpoints").iterdir()))
    unmoved = [name for name, value in network.state_dict().items() if torch.equal(tensors[f"model/{name}"], value)]
    assert unmoved == ["head.scale"]
    recipe = json.loads((tmp_path / "oltr" / "config.json").read_text())["second_stage"]["recipe"]
    assert recipe["schedule"] | {"warm_up": None} == {
        "kind": "Steps", "at": [21, 41], "by": 0.1, "of": 60, "warm_up": None,
    }  # fmt: skip


def test_another_head_than_a_linear_one_has_no_part_in_it(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path, head="cosine")
    assert Oltr()._make_network(trained).memory.recall.weight.shape == trained.network.head.weight.shape


def test_a_backbone_without_maps_is_refused_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = untrained_run(tmp_path).ground
    Oltr().check(setting)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    monkeypatch.setattr(Backbone, "make", lambda _self, _in_channels: flat)
    with pytest.raises(EnergyAlignError, match="Sequential has no maps that it averages to features"):
        Oltr().check(setting)
