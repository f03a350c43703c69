"""Evidence: balanced, and augmented by the policy of the plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.outputs import as_evidence, drawn_outputs
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailData, load_data
from energyalign.experiments.longtail.presets import PRESETS


class Spy(torch.nn.Module):
    """Records its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen.append(images)
        return torch.zeros(len(images), 10)


@pytest.fixture(scope="module")
def digits() -> LongTailData:
    return load_data(LongTailConfig.from_preset(PRESETS["digits-lt-50"], seed=0), None)


def images_of(plan: EvidencePlan, data: LongTailData, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    spy = Spy()
    evidence = as_evidence(drawn_outputs(spy, data.train, plan, seed), data.train)
    assert evidence.labels is not None
    return torch.cat(spy.seen), np.asarray(evidence.labels)


def test_every_class_is_drawn_equally_often(digits: LongTailData) -> None:
    _, labels = images_of(EvidencePlan(7), digits)
    assert np.bincount(labels).tolist() == [7] * 10


def test_without_augmentation_they_are_training_images_as_the_network_sees_them(digits: LongTailData) -> None:
    seen, labels = images_of(EvidencePlan(3, "none"), digits)
    train = digits.train.preparation.normalise(torch.stack([digits.train.read(i) for i in range(len(digits.train))]))
    for image, label in zip(seen, labels, strict=True):
        distances = (train - image).abs().amax(dim=(1, 2, 3))
        nearest = int(distances.argmin())
        assert distances[nearest] < 1e-5
        assert digits.train.labels[nearest] == label


def test_as_in_training_digits_are_shifted_and_never_mirrored(digits: LongTailData) -> None:
    seen, labels = images_of(EvidencePlan(30, "training"), digits)
    rare = seen[labels == 9]
    pictures = digits.train.preparation.normalise(
        torch.stack([digits.train.read(i) for i in np.flatnonzero(digits.train.labels == 9)])
    )
    black = float(digits.train.preparation.normalise(torch.zeros(1, 1, 1, 1, dtype=torch.uint8)))
    padded = torch.nn.functional.pad(pictures, (1, 1, 1, 1), value=black)
    shifted = torch.cat([padded[:, :, y : y + 8, x : x + 8] for y in range(3) for x in range(3)])
    nearest = [(shifted - image).abs().amax(dim=(1, 2, 3)) for image in rare]
    assert all(distances.min() < 1e-5 for distances in nearest)
    assert len({int(distances.argmin()) for distances in nearest}) > 5  # not always the same shift


def test_the_seed_fixes_the_draws(digits: LongTailData) -> None:
    for policy in ("one", "training"):
        plan = EvidencePlan(3, policy)
        one, again, other = (images_of(plan, digits, seed)[0] for seed in (0, 0, 1))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="must be >= 1 image of each class, got 0"):
        EvidencePlan(0)
    with pytest.raises(EnergyAlignError, match="'heavy': choose one of training, none, crop-flip"):
        EvidencePlan(5, "heavy")
