"""Training data as learners see them, the network to train, and the trained network as correctors see it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from energyalign.core.arrays import Bools, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.loader import Loader, evaluation_batches
from energyalign.experiments.data.order import Order
from energyalign.experiments.data.preparation import LargePreparation
from energyalign.experiments.engine.config import EvidencePlan, RunConfig
from energyalign.experiments.engine.outputs import Floats32, as_evidence, drawn_outputs, for_inference, outputs, scores
from energyalign.experiments.nets.network import Network, make_network
from energyalign.experiments.nets.registry import is_of_library
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.pytorch.store import LogitStore


class Ground(ABC):
    """What a network is trained on, as learners see it: a long-tailed set, or one step of a class-incremental run.

    Attributes
    ----------
    config : RunConfig
    train : ImageSet
        The training images.
    workers : int
        Processes that read images.
    device : torch.device
    """

    config: Any
    train: ImageSet
    workers: int
    device: torch.device

    @abstractmethod
    def seed(self, *what: str | int) -> int:
        """Derive a seed for this purpose from the seed of the run."""

    def loader(
        self, images: ImageSet | None = None, *, order: Order | None = None, purpose: str = "data",
        batch_size: int | None = None,
    ) -> Loader:  # fmt: skip
        """Return augmented batches, by default of the training images, shuffled anew in every epoch."""
        return Loader(
            self.train if images is None else images, batch_size=batch_size or self.config.recipe.batch_size,
            seed=self.seed(purpose), order=order, workers=self.workers, device=self.device,
        )  # fmt: skip


def network_for(config: RunConfig, images: ImageSet, n_classes: int) -> Network:
    """Make the network of a config for these images: untrained, or with the weights that the config names."""
    return make_network(
        config.backbone, n_classes, head=config.head, scale=config.scale, learned_scale=config.learned_scale,
        in_channels=int(images.read(0).shape[0]), weights=config.weights, freeze=config.freeze,
        **(input_format(images) if is_of_library(config.backbone) else {}),
    )  # fmt: skip


def input_format(images: ImageSet) -> dict[str, Any]:
    """Return size, mean and standard deviation of the images as a network sees them."""
    prepare = images.preparation
    size = (prepare.side,) * 2 if isinstance(prepare, LargePreparation) else tuple(images.read(0).shape[1:])
    return {"size": size, "mean": prepare.normalise.mean, "std": prepare.normalise.std}


def refuse_negative_features(network: Network, images: ImageSet, why: str) -> None:
    """Raise if features of the first images are negative; a network that ends in a ReLU has none."""
    few = next(evaluation_batches(images, batch_size=8)).images
    with torch.no_grad():
        lowest = float(network.eval().features(few).min())
    if lowest < 0:
        raise EnergyAlignError(
            f"{why}, and this backbone has negative ones (the lowest is {lowest:.2g}): choose one that ends in a ReLU, "
            "such as torchvision:resnet18, or mlp on features."
        )


class SeenClasses:
    """The classes of a network, by step.

    Attributes
    ----------
    sizes : tuple of int
        Number of classes of each step up to this one, in the order of the logits' columns. A long tail has one step.
    train : ImageSet
        The training images of the last step: long-tailed, or new images and memory.
    """

    sizes: tuple[int, ...]
    train: ImageSet

    @property
    def n_new(self) -> int:
        """Number of classes of the last step."""
        return self.sizes[-1]

    @property
    def n_old(self) -> int:
        """Number of classes of the steps before; 0 for a long tail."""
        return sum(self.sizes[:-1])

    @property
    def n_seen(self) -> int:
        """Number of classes so far, and of the logits' columns."""
        return sum(self.sizes)

    @property
    def groups(self) -> list[slice]:
        """The columns of each step so far."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    @cached_property
    def counts(self) -> Ints:
        """Number of training images of each class, exemplars included."""
        return np.bincount(self.train.labels, minlength=self.n_seen)

    @cached_property
    def is_new(self) -> Bools:
        """Mask of the training images of new classes."""
        return np.asarray(self.train.labels >= self.n_old)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained(SeenClasses):
    """A trained network after the last or only step, with the outputs that correctors read, each computed once.

    Attributes
    ----------
    network : Network
        In evaluation mode. Correctors copy what they change.
    ground : Ground
        What the network was trained on.
    evidence_seed : int
        Seed of the draws of evidence.
    run : RunDirectory
        The run directory. A corrector with its own training uses a folder below it.
    number : int
        Number of the step, from 1.
    network_sha256 : str
        Hash of the weights, which ties rows to this network.
    validation : ImageSet or None
        Images for choosing a hyper-parameter, if the data set has a validation split.
    held_out : ImageSet or None
        Images that were never trained on, if the config asks for them: equally many of each class where classes come
        in steps, a share of each class in a long tail.
    exemplars : ImageSet or None
        The memory of the next step: exemplars of all classes seen, new ones included.
    records : sequence of StepRecord
        One for each step up to this one.
    """

    network: Network
    ground: Ground
    evidence_seed: int
    run: RunDirectory
    fabric: Fabric
    reporter: Reporter
    network_sha256: str
    number: int = 1
    sizes: tuple[int, ...]
    validation: ImageSet | None = None
    held_out: ImageSet | None = None
    exemplars: ImageSet | None = None
    records: Sequence[Any] = ()
    _evidence: dict[EvidencePlan, Evidence] = field(default_factory=dict)
    _evidence_features: dict[EvidencePlan, LogitStore] = field(default_factory=dict)

    @property
    def config(self) -> RunConfig:
        """The config of the run."""
        config: RunConfig = self.ground.config
        return config

    @property
    def train(self) -> ImageSet:  # type: ignore[override]
        """The training images of this step."""
        return self.ground.train

    @cached_property
    def for_inference(self) -> Network:
        """The network as trained, fused for inference."""
        return for_inference(self.network)

    def copied_head(self) -> torch.nn.Module:
        """Copy the trained head, for a corrector to change."""
        return copy.deepcopy(self.network.head)

    def with_head(self, head: torch.nn.Module) -> Network:
        """Return the trained backbone with this head."""
        return Network(self.network.backbone, head.to(self.fabric.device))

    @cached_property
    def train_features(self) -> Floats32:
        """Features of the training images without augmentation, in the order of `train.labels`."""
        return self.features(self.train)

    @cached_property
    def train_logits(self) -> Floats32:
        """Logits of the trained network for the training images without augmentation."""
        return self.scores(self.network.head, self.train_features)

    def evidence(self, plan: EvidencePlan) -> Evidence:
        """Return balanced evidence drawn from the training images, the same for every call."""
        if plan not in self._evidence:
            self._evidence[plan] = as_evidence(self.evidence_scores(self.network, plan), self.train)
        return self._evidence[plan]

    def evidence_scores(self, network: Network, plan: EvidencePlan) -> LogitStore:
        """Return the scores of a network, trained or corrected, on the evidence, with the labels."""
        if network.backbone is not self.network.backbone:
            return self._draw(for_inference(network), plan)
        features, collected = self.evidence_features(plan), LogitStore()
        for block, labels in zip(features.blocks, features.labels, strict=True):
            collected.append(torch.from_numpy(self.scores(network.head, block)), labels)
        return collected

    def evidence_features(self, plan: EvidencePlan) -> LogitStore:
        """Return the features of the evidence, with the labels."""
        if plan not in self._evidence_features:
            self._evidence_features[plan] = self._draw(self.for_inference.backbone, plan)
        return self._evidence_features[plan]

    def _draw(self, network: torch.nn.Module, plan: EvidencePlan) -> LogitStore:
        return drawn_outputs(network, self.train, plan, self.evidence_seed, workers=self.ground.workers)

    def features(self, images: ImageSet, backbone: torch.nn.Module | None = None) -> Floats32:
        """Return the features of some images, or the outputs of another module in place of the backbone."""
        chosen = self.for_inference.backbone if backbone is None else backbone
        return outputs(chosen, images, workers=self.ground.workers, device=self.fabric.device)

    def scores(self, head: torch.nn.Module, features: Floats32) -> Floats32:
        """Return the outputs of a head for some features."""
        return scores(head, features, device=self.fabric.device)
