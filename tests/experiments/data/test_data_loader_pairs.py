"""Pairs of batches from two loaders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from energyalign import EnergyAlignError
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.loader import Loader, PairedLoader
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation

torch.set_num_threads(1)

LABELS = np.repeat(np.arange(5), 5)


def loader(seed: int, batch_size: int = 10) -> Loader:
    pixels = torch.arange(25 * 16, dtype=torch.int64).reshape(25, 1, 4, 4) % 251
    preparation = SmallPreparation(Normalisation((0.0,), (1.0,)), padding=1)
    images = MemoryImages("toy", pixels.to(torch.uint8), LABELS, tuple("abcde"), preparation)
    return Loader(images, batch_size=batch_size, seed=seed)


def test_it_yields_a_batch_of_each() -> None:
    first, second = loader(0), loader(1)
    paired = PairedLoader(first, second)
    assert paired.n_batches == 3
    for pair, batch, other in zip(paired.epoch(4), first.epoch(4), second.epoch(4), strict=True):
        assert torch.equal(pair.images, batch.images)
        assert torch.equal(pair.labels, batch.labels)
        assert torch.equal(pair.other_images, other.images)
        assert torch.equal(pair.other_labels, other.labels)
        assert len(pair[-1]) == len(pair[0])  # by which the training loop counts


def test_it_starts_anywhere_and_shares_among_ranks() -> None:
    paired = PairedLoader(loader(0), loader(1))
    whole = list(paired.epoch(2))
    assert all(torch.equal(a[2], b[2]) for a, b in zip(paired.epoch(2, start=1), whole[1:], strict=True))
    part = next(paired.epoch(2, rank=1, world_size=2))
    assert torch.equal(part.labels, whole[0].labels[1::2])
    assert torch.equal(part.other_images, whole[0].other_images[1::2])


def test_epochs_of_different_lengths_are_refused() -> None:
    with pytest.raises(EnergyAlignError, match="equally many batches, got 3 and 5"):
        PairedLoader(loader(0), loader(1, batch_size=5))
