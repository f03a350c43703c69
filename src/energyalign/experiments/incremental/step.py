"""What a learner sees of a step: its images, how many classes are new, and the means to train on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric import Fabric

from energyalign.core.arrays import Ints
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.stored import step_folder
from energyalign.experiments.engine.trained import Ground, SeenClasses
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.describe import described
from energyalign.experiments.train.loop import EpochBatches, Loss, Training
from energyalign.experiments.train.randomness import derived_seed, seed_torch
from energyalign.experiments.train.recipe import Recipe
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory, opened

if TYPE_CHECKING:
    from energyalign.experiments.incremental.config import IncrementalConfig


@dataclass(frozen=True, eq=False)
class Step(SeenClasses, Ground):
    """All that learners and correctors may look at in a step: its new images and the memory, nothing else.

    Attributes
    ----------
    number : int
        From 1.
    sizes : tuple of int
        Classes of each step up to this one. Classes are numbered in their order of arrival.
    indices : array
        Which images of the stream `train` is of.
    train : ImageSet
        New images and exemplars.
    new_held_out : tuple of arrays
        Which images of each new class are held out, as indices of the stream.
    held_out : ImageSet or None
        As many images of each class, never trained on; if the config asks for them.
    run : RunDirectory
        Of the whole run.
    """

    config: IncrementalConfig
    number: int
    sizes: tuple[int, ...]
    indices: Ints
    train: ImageSet
    new_held_out: tuple[Ints, ...]
    held_out: ImageSet | None
    run: RunDirectory
    fabric: Fabric
    reporter: Reporter
    workers: int = 0

    @property
    def recipe(self) -> Recipe:
        """With the weight decay of this step."""
        return self.config.recipe_of(self.number)

    @property
    def device(self) -> torch.device:
        """That of the fabric."""
        return self.fabric.device

    @property
    def folder(self) -> Path:
        """Where the files of this step go."""
        return step_folder(self.run.path, self.number)

    def seed(self, *what: str | int) -> int:
        """A seed for this purpose, derived from the seed of the run and the number of the step."""
        return derived_seed(self.config.seed, "step", self.number, *what)

    def seed_torch(self, *what: str | int) -> None:
        """Seed torch's global generator for this purpose, as new weights are drawn from it."""
        seed_torch(self.config.seed, "step", self.number, *what)

    def train_network(
        self, network: Network, loss: Loss, *, stage: str = "training", recipe: Recipe | None = None,
        batches: EpochBatches | None = None, parameters: Iterable[Any] | None = None,
    ) -> None:  # fmt: skip
        """Train in place, in a folder of its own below that of the step; interrupted, it goes on where it was.

        The network is in evaluation mode afterwards, in single precision whatever that of the training.
        """
        recipe = recipe or self.recipe
        config = self.config.to_json() | {"step": self.number, "stage": stage, "stage_recipe": described(recipe)}
        name = f"step {self.number} of {self.config.n_steps}" + ("" if stage == "training" else f" {stage}")
        with opened(self.folder / stage, config, self.fabric) as run:
            training = Training(
                self.fabric, network, parameters=parameters, batches=batches or self.loader(purpose=stage), loss=loss,
                recipe=recipe, run=run, seed=self.seed(stage), reporter=self.reporter.stage(name),
                compile=self.config.compile,
            )  # fmt: skip
            training.finish()
        network.float().eval()
