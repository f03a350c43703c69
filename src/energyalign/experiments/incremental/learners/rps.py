"""RPS-net: every other step adds the best of a few random paths through a wide network."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import ClassScores
from energyalign.experiments.incremental.learners.fine_tuning import FineTuning
from energyalign.experiments.incremental.memory import random_lists
from energyalign.experiments.nets.registry import is_of_library
from energyalign.experiments.train.recipe import Adam, Recipe, Steps

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss

_PHOTOGRAPHS = ("resnet18", "resnet50", "resnext50", "rps-large")
"""How the names of backbones for photographs begin."""


@dataclass(frozen=True)
class RandomPathSelection(FineTuning):
    """``CE + phi KL``; every `jump` steps a new path through `RandomPaths`, beside the former ones, which are frozen.

    CE is over all classes seen, KL from the softened outputs of the teacher to the softened outputs of the network over
    the old ones, both on new images and exemplars. With b the number of the step, phi is 1 up to step ``jump + 1`` and
    ``rigidness * (b - 1 - jump)`` after it. Adam starts at 1e-3, halved after 20, 40, 60 and 80 of 100 epochs, without
    weight decay. Epochs and batch size come from the cell (the original: 100, and 128 or 64).

    Steps 1 to `jump` train the first path: in an untrained network all paths are alike. When a new path is due, several
    are drawn. Each is trained for a part of the epochs on all but a tenth of the images of each class, and the one with
    the best mean accuracy of classes on that tenth is chosen. It then starts again, from the network of the step
    before, for all epochs and with all images.

    The original trains all candidates for all epochs, on one GPU each, and keeps the path and epoch that are best on
    the test set. Its KL is over all columns, with the one-hot label among the logits of new classes, and its teacher
    also uses the new path, whose modules are untrained.

    Attributes
    ----------
    candidates : int, default 8
        Paths to choose from. With the defaults a step that chooses a path takes about 1.7 times as long as other steps.
    candidate_part : float, default 0.1
        Share of the epochs for each candidate.
    compared_on : float, default 0.1
        Share of the images of each class, at least one, by which candidates are compared.
    jump : int, default 2
        Steps from one new path to the next.
    rigidness, photograph_rigidness : float, default 2.5 and 10
        How fast phi grows; the original has another value for ImageNet.
    temperature : float, default 2
        Temperature of both softmaxes of KL.

    References
    ----------
    Rajasegaran, Hayat, Khan, Khan and Shao 2019, Random Path Selection for Incremental Learning.
    """

    name: ClassVar[str] = "rps"
    has_teacher: ClassVar[bool] = True
    has_own_backbone: ClassVar[bool] = True

    candidates: int = 8
    candidate_part: float = 0.1
    compared_on: float = 0.1
    jump: int = 2
    rigidness: float = 2.5
    photograph_rigidness: float = 10.0
    temperature: float = 2.0

    def __post_init__(self) -> None:
        if self.candidates < 1 or self.jump < 1:
            raise EnergyAlignError(f"candidates and jump must be >= 1, got {self.candidates} and {self.jump}.")

    def backbone(self, name: str) -> str:
        if is_of_library(name):
            raise EnergyAlignError(f"rps trains paths through a network of its own, not {name}: leave out --backbone.")
        return "rps-large" if name.startswith(_PHOTOGRAPHS) else "rps-small"

    def recipe(self, preset: Preset) -> Recipe:
        schedule = Steps((21, 41, 61, 81), 0.5, 100)
        return replace(preset.recipe, optimizer=Adam(1e-3, weight_decay=0.0), schedule=schedule)

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        if step.number > 1 and (step.number - 1) % self.jump == 0:
            network.backbone.add_path(self._choose_path(step, network, teacher))
        step.train_network(network, self.loss(step, teacher))

    def weight(self, step: Step) -> float:
        """Return the weight of the distillation loss, phi in the paper."""
        steps_since = step.number - 1 - self.jump
        if steps_since <= 0:
            return 1.0
        photographs = step.config.backbone == "rps-large"
        return steps_since * (self.photograph_rigidness if photographs else self.rigidness)

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
        import torch
        from torch.nn import functional as F

        if teacher is None:
            return super().loss(step, teacher)
        weight, n_old = self.weight(step), step.n_old

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits = model(batch.images)
            with torch.no_grad():
                taught = F.log_softmax(teacher(batch.images) / self.temperature, dim=1)
            learned = F.log_softmax(logits[:, :n_old] / self.temperature, dim=1)
            divergence = F.kl_div(learned, taught, reduction="batchmean", log_target=True)
            return F.cross_entropy(logits, batch.labels) + weight * divergence

        return loss

    def _choose_path(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> tuple[int, ...]:
        """Return the candidate with the best accuracy on images of the step that no candidate was trained on."""
        random = np.random.default_rng(step.seed("paths"))
        paths: list[tuple[int, ...]] = [network.backbone.random_path(random) for _ in range(self.candidates)]
        if len(paths) == 1:
            return paths[0]
        trained_on, compared_on = self._split(step)
        recipe = step.recipe.lasting(max(1, round(self.candidate_part * step.recipe.epochs)))
        accuracies = []
        for number, path in enumerate(paths, 1):
            candidate, stage = copy.deepcopy(network), f"candidate-{number}"
            candidate.backbone.add_path(path)
            batches = step.loader(step.train.subset(trained_on), purpose=stage)
            step.train_network(candidate, self.loss(step, teacher), stage=stage, recipe=recipe, batches=batches)
            accuracies.append(_mean_accuracy(step, candidate, compared_on))
        best = int(np.argmax(accuracies))
        step.reporter.note(
            f"Path {best + 1} of {len(paths)}: {100 * accuracies[best]:.1f} % on held-out training images, the worst "
            f"{100 * min(accuracies):.1f} %."
        )
        return paths[best]

    def _split(self, step: Step) -> tuple[Ints, Ints]:
        """Split the training images, as positions, into a part to train candidates on and a part to compare them on."""
        places, labels = np.arange(len(step.train.labels)), step.train.labels
        lists = random_lists(places, labels, range(step.n_seen), step.seed("compared on"))
        # At least one image of each class, but at most half of them.
        compared = [one[: min(max(1, int(self.compared_on * len(one))), len(one) // 2)] for one in lists]
        compared_on = np.sort(np.concatenate(compared))
        alone = sum(len(one) == 0 for one in compared)
        if alone:
            step.reporter.note(f"Paths are compared without the {alone} classes that have a single image.")
        if len(compared_on) == 0:
            raise EnergyAlignError(
                f"no class of step {step.number} has two training images, which comparing paths needs: add images."
            )
        return np.setdiff1d(places, compared_on), compared_on


def _mean_accuracy(step: Step, network: Network, places: Ints) -> float:
    """Return the balanced accuracy, since old classes have few images and would hardly count otherwise."""
    from energyalign.experiments.engine.outputs import for_inference, outputs

    images = step.train.subset(places)
    logits = outputs(for_inference(network), images, workers=step.workers, device=step.fabric.device)
    return ClassScores(step.n_seen).update(logits, images.labels).balanced_accuracy
