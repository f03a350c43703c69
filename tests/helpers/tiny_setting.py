"""The setting of a learner, without data sets and run directories: a few random images and a config."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import Setting
from energyalign.experiments.longtail.learners import CrossEntropy
from energyalign.experiments.longtail.presets import PRESETS

torch.set_num_threads(1)


class TinyBatch(NamedTuple):
    """A batch with the fields that loaders return."""

    images: torch.Tensor
    labels: torch.Tensor


def tiny_setting(
    learner: CrossEntropy, counts: tuple[int, ...] = (16, 4, 1), *, channels: int = 3, epochs: int = 200,
    preset: str = "cifar10-lt-100", backbone: str = "small-cnn", batch_size: int = 8,
) -> Setting:  # fmt: skip
    """Make a setting of this preset with random images of 8 x 8 pixels; `counts` are the images of each class."""
    cell = PRESETS[preset]
    recipe = replace(cell.recipe.lasting(epochs), batch_size=batch_size)
    config = LongTailConfig.from_preset(replace(cell, backbone=backbone, recipe=recipe), learner, seed=0)
    labels = np.repeat(np.arange(len(counts)), counts)
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), channels, 8, 8), dtype=np.uint8)
    images = MemoryImages(
        "tiny train", torch.from_numpy(pixels), labels, tuple(f"class {k}" for k in range(len(counts))),
        SmallPreparation(Normalisation((0.5,) * channels, (0.25,) * channels)),
    )  # fmt: skip
    return Setting(config, images, torch.tensor(counts, dtype=torch.float32), 0, torch.device("cpu"))


def says(logits: torch.Tensor) -> torch.nn.Module:
    """Return a network that returns these logits for any input."""
    answer = torch.nn.Module()
    answer.forward = lambda *_: logits  # type: ignore[method-assign]
    return answer
