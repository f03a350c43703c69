"""What a network was trained on, and the trained network with all that correctors may want to know, computed once."""

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
from energyalign.core.evidence import Evidence
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.loader import Loader
from energyalign.experiments.data.order import Order
from energyalign.experiments.engine.config import EvidencePlan, RunConfig
from energyalign.experiments.engine.outputs import Floats32, as_evidence, drawn_outputs, for_inference, outputs, scores
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.pytorch.store import LogitStore


class Ground(ABC):
    """What a network is trained on, as learners see it: a long-tailed set, or a step of classes.

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
        """A seed for this purpose, derived from the seed of the run."""

    def loader(
        self, images: ImageSet | None = None, *, order: Order | None = None, purpose: str = "data",
        batch_size: int | None = None,
    ) -> Loader:  # fmt: skip
        """Augmented batches of the training images, or of others; in a new order every epoch unless one is given."""
        return Loader(
            self.train if images is None else images, batch_size=batch_size or self.config.recipe.batch_size,
            seed=self.seed(purpose), order=order, workers=self.workers, device=self.device,
        )  # fmt: skip


class SeenClasses:
    """The classes of a network: what follows from the sizes of the steps so far and the last training images.

    A long tail has one step.

    Attributes
    ----------
    sizes : tuple of int
        Classes of each step up to this one, in the order of the logits' columns.
    train : ImageSet
        The training images: long-tailed, or new images and memory.
    """

    sizes: tuple[int, ...]
    train: ImageSet

    @property
    def n_new(self) -> int:
        """Classes of the last step."""
        return self.sizes[-1]

    @property
    def n_old(self) -> int:
        """Classes of the steps before; 0 for a long tail."""
        return sum(self.sizes[:-1])

    @property
    def n_seen(self) -> int:
        """All classes so far: the columns of the logits."""
        return sum(self.sizes)

    @property
    def groups(self) -> list[slice]:
        """The classes of each step so far, as columns."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    @cached_property
    def counts(self) -> Ints:
        """Training images of each class, exemplars included."""
        return np.bincount(self.train.labels, minlength=self.n_seen)

    @cached_property
    def is_new(self) -> Bools:
        """Which of the training images are of new classes."""
        return np.asarray(self.train.labels >= self.n_old)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained(SeenClasses):
    """The end of a training, or of one step of it.

    Attributes
    ----------
    network : Network
        In evaluation mode. Correctors copy what they change.
    ground : Ground
        What it was trained on.
    evidence_seed : int
    run : RunDirectory
        Of the whole run. A corrector that trains does it in a folder below.
    number : int
        Of the step, from 1.
    sizes : tuple of int
        Classes of each step up to this one, in the order of the logits' columns.
    network_sha256 : str
        Of its weights: rows are of this network and no other.
    validation : ImageSet or None
        For correctors that choose a hyper-parameter, if the data set has such images.
    held_out : ImageSet or None
        As many images of each class, never trained on; if the config asks for them.
    exemplars : ImageSet or None
        The memory with which the next step will begin: of all classes seen, the new ones too.
    records : sequence of StepRecord
        Of the steps before and of this one.
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
        """Of the run."""
        config: RunConfig = self.ground.config
        return config

    @property
    def train(self) -> ImageSet:  # type: ignore[override]
        """The training images: long-tailed, or new images and memory."""
        return self.ground.train

    @cached_property
    def for_inference(self) -> Network:
        """The network as trained, faster."""
        return for_inference(self.network)

    def copied_head(self) -> torch.nn.Module:
        """The head as trained, in a copy that may be changed."""
        return copy.deepcopy(self.network.head)

    def with_head(self, head: torch.nn.Module) -> Network:
        """The backbone as trained, under this head."""
        return Network(self.network.backbone, head.to(self.fabric.device))

    @cached_property
    def train_features(self) -> Floats32:
        """What the head sees of the training images, without augmentation, in the order of their labels."""
        return self.features(self.train)

    @cached_property
    def train_logits(self) -> Floats32:
        """Of the network as trained, for the same images."""
        return self.scores(self.network.head, self.train_features)

    def evidence(self, plan: EvidencePlan) -> Evidence:
        """Balanced evidence from the training images; the same whenever it is asked for."""
        if plan not in self._evidence:
            self._evidence[plan] = as_evidence(self.evidence_scores(self.network, plan), self.train)
        return self._evidence[plan]

    def evidence_scores(self, network: Network, plan: EvidencePlan) -> LogitStore:
        """What a network, as trained or corrected, says of the evidence, and the labels."""
        if network.backbone is not self.network.backbone:
            return self._drawn(for_inference(network), plan)
        features, said = self.evidence_features(plan), LogitStore()
        for block, labels in zip(features.blocks, features.labels, strict=True):
            said.append(torch.from_numpy(self.scores(network.head, block)), labels)
        return said

    def evidence_features(self, plan: EvidencePlan) -> LogitStore:
        """What the head sees of the evidence, and the labels."""
        if plan not in self._evidence_features:
            self._evidence_features[plan] = self._drawn(self.for_inference.backbone, plan)
        return self._evidence_features[plan]

    def _drawn(self, network: torch.nn.Module, plan: EvidencePlan) -> LogitStore:
        return drawn_outputs(network, self.train, plan, self.evidence_seed, workers=self.ground.workers)

    def features(self, images: ImageSet, backbone: torch.nn.Module | None = None) -> Floats32:
        """What the head sees of some images, or what another backbone says of them."""
        chosen = self.for_inference.backbone if backbone is None else backbone
        return outputs(chosen, images, workers=self.ground.workers, device=self.fabric.device)

    def scores(self, head: torch.nn.Module, features: Floats32) -> Floats32:
        """What a head says of some features."""
        return scores(head, features, device=self.fabric.device)
