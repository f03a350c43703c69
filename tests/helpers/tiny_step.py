"""A step without data sets and run directories: a few random images of 8 x 8 pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from incremental_run import digits_config
from lightning_fabric import Fabric

from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.incremental.learners import FineTuning
from energyalign.experiments.incremental.step import Step
from energyalign.experiments.train.reporter import Reporter


def tiny_images(counts: tuple[int, ...], *, flip: bool = True) -> MemoryImages:
    """Draw this many images of each class."""
    labels = np.repeat(np.arange(len(counts)), counts)
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 1, 8, 8), dtype=np.uint8)
    preparation = SmallPreparation(Normalisation((0.5,), (0.25,)), flip=flip)
    names = tuple(f"class {k}" for k in range(len(counts)))
    return MemoryImages("tiny train", torch.from_numpy(pixels), labels, names, preparation)


def tiny_step(learner: FineTuning, counts: tuple[int, ...], sizes: tuple[int, ...], **config: Any) -> Step:
    """Make the last of several steps of these sizes, with this many training images."""
    images = tiny_images(counts)
    run: Any = None
    settings = digits_config(learner, **({"epochs": 7} | config))
    fabric = Fabric(accelerator="cpu", devices=1)
    return Step(settings, len(sizes), sizes, np.arange(len(images)), images, (), None, run, fabric, Reporter())
