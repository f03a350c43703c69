"""Train a later step of an incremental run on synthetic images of CIFAR's size, as the package does."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric

from bench.cifar_training import BATCH, made_up_images
from energyalign.experiments.engine.outputs import for_inference
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.learners.distill import Distill
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.experiments.incremental.step import Step
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory

OLD, NEW = 50, 10  # classes: a step of ten after fifty


class LaterStep:
    """The second step of a run: exemplars of 50 old classes, images of ten new ones, one epoch with a teacher.

    Parameters
    ----------
    folder : Path
        Folder of the run directories, one for each training.
    n_exemplars, n_new : int
        Images of all old and of all new classes.
    """

    def __init__(self, folder: Path, n_exemplars: int, n_new: int) -> None:
        preset = PRESETS["cifar100-il-10"]
        preset = replace(preset, recipe=replace(preset.recipe.lasting(1), batch_size=BATCH))
        config = IncrementalConfig.from_preset(
            preset, Distill(), seed=0, memory=MemoryPlan("random", n_exemplars), corrector="ea"
        )
        labels = np.concatenate([np.arange(n_exemplars) % OLD, OLD + np.arange(n_new) % NEW])
        fabric = Fabric(accelerator="cpu", devices=1)
        run = RunDirectory(folder)
        names = tuple(f"class {k}" for k in range(OLD + NEW))
        train = replace(made_up_images(len(labels)), labels=labels, class_names=names)
        self.step = Step(config, 2, (OLD, NEW), np.arange(len(labels)), train, (), None, run, fabric, Reporter())
        first = replace(self.step, number=1, sizes=(OLD,))
        self._before = config.learner.start(first, None)
        self.teacher = for_inference(self._before)
        self._folders = (folder / str(number) for number in itertools.count())
        self.prepare()

    def prepare(self) -> None:
        """Make a student, and a folder without a training."""
        self.step = replace(self.step, run=RunDirectory(next(self._folders)))
        self.student: Network = self.step.config.learner.start(self.step, self._before)

    def learn(self) -> None:
        """Train one epoch, and write its checkpoint."""
        self.step.config.learner.learn(self.step, self.student, self.teacher)

    def batch(self) -> torch.Tensor:
        """Return a batch of images in the form that the network gets."""
        images: torch.Tensor = next(self.step.loader().epoch(1)).images
        return images
