"""The small network is small, takes small images, and learns."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn import functional as F

from energyalign.experiments.nets.backbones import SmallCnn
from energyalign.experiments.nets.network import make_network
from energyalign.experiments.nets.registry import HEADS


def test_it_is_small() -> None:
    assert sum(parameter.numel() for parameter in SmallCnn().parameters()) < 100_000


@pytest.mark.parametrize("size", [8, 16, 28, 32])
@pytest.mark.parametrize("in_channels", [1, 3])
def test_sizes_and_colours(size: int, in_channels: int) -> None:
    features = SmallCnn(in_channels)(torch.randn(2, in_channels, size, size))
    assert features.shape == (2, 64)
    assert features.min() >= 0


@pytest.mark.parametrize("head", HEADS)
def test_it_learns_digits(head: str) -> None:
    digits = load_digits()
    split = train_test_split(digits.images / 16.0, digits.target, test_size=0.3, random_state=0, stratify=digits.target)
    images, test_images = (torch.tensor(part, dtype=torch.float32)[:, None] for part in split[:2])
    labels, test_labels = (torch.tensor(part) for part in split[2:])
    network = make_network("small-cnn", 10, head=head, in_channels=1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _epoch in range(4):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    network.eval()
    with torch.no_grad():
        correct = network(test_images).argmax(1) == test_labels
    assert correct.float().mean() > 0.9
