"""Nearest means of exemplars, compared with an independent computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from incremental_run import digits_config, setting_of
from PIL import Image
from tiny_step import tiny_images, tiny_step

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.nme import NearestMeanOfExemplars
from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.preparation import LargePreparation, Normalisation
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.nets.corrected_heads import NearestMeans
from energyalign.experiments.nets.network import Network

COUNTS = (3, 1, 2)


class FirstPixels(torch.nn.Module):
    """Features are the first four pixels of the first row, which differ for mirrored images."""

    n_features = 4

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, 0, 0, :4]


def after(exemplars: ImageSet) -> Trained:
    step = tiny_step(find_learner("icarl"), COUNTS, (2, 1), memory="herding:40")
    return Trained(
        network=Network(FirstPixels(), torch.nn.Linear(4, 3)), ground=step, evidence_seed=0, run=step.run,
        fabric=step.fabric, reporter=step.reporter, network_sha256="", number=2, sizes=(2, 1), exemplars=exemplars,
    )  # fmt: skip


def means_of(exemplars: ImageSet) -> np.ndarray:
    head = NearestMeanOfExemplars().correct(after(exemplars), EvidencePlan()).network.head
    assert isinstance(head, NearestMeans)
    return head.means.numpy()


def directions(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def expected_means(pixels: np.ndarray, labels: np.ndarray, *, mirrored: bool) -> np.ndarray:
    """Compute the means from the first row of pixels of each image."""
    values = (pixels / 255.0 - 0.5) / 0.25
    means = np.array([directions(values[labels == k, :4]).mean(axis=0) for k in range(3)])
    if mirrored:
        last = values[:, ::-1][:, :4]
        means = (means + np.array([directions(last[labels == k]).mean(axis=0) for k in range(3)])) / 2
    return directions(means)


@pytest.mark.parametrize("flip", [False, True])
def test_means_of_small_images(flip: bool) -> None:
    images = tiny_images(COUNTS, flip=flip)
    expected = expected_means(images.images[:, 0, 0].double().numpy(), images.labels, mirrored=flip)
    np.testing.assert_allclose(means_of(images), expected, atol=1e-6)


def test_means_of_files_take_mirror_images_in(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    names = tuple(f"{i}.png" for i in range(6))
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(tmp_path / name)
    labels = np.repeat(np.arange(3), COUNTS)
    preparation = LargePreparation(Normalisation((0.5,) * 3, (0.25,) * 3), side=8, resize=8)
    files = FileImages("files", DiskFiles(tmp_path, names), np.arange(6), labels, ("a", "b", "c"), preparation)
    expected = expected_means(pixels[:, 0, :, 0].astype(float), labels, mirrored=True)
    np.testing.assert_allclose(means_of(files), expected, atol=1e-6)


def test_scores_are_minus_squared_distances_to_features_of_length_one() -> None:
    """By hand: (3, 4) normalises to (0.6, 0.8), at squared distances of 0.8 and 0.4 from the means."""
    scores = NearestMeans(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))(torch.tensor([[3.0, 4.0]]))
    torch.testing.assert_close(scores, torch.tensor([[-0.8, -0.4]]))


def test_it_begins_with_the_first_step_and_feeds_nothing_back() -> None:
    nme = find_corrector("nme")
    assert (nme.first_step, nme.feedback, nme.held_out, nme.reads_evidence) == (1, "none", 0.0, False)


def test_without_memory_it_is_refused_before_training() -> None:
    config = digits_config(find_learner("icarl"), epochs=1, memory="none")
    with pytest.raises(EnergyAlignError, match="cannot follow icarl, which keeps no memory here"):
        find_corrector("nme").check(setting_of(config))
    find_corrector("nme").check(setting_of(digits_config(find_learner("icarl"), epochs=1, memory="herding:40")))
