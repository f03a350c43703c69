"""Heads made of feature statistics on a backbone that is frozen after the first step: streaming LDA and RanPAC."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from energyalign.experiments.incremental.learners.fine_tuning import FineTuning

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network


@dataclass(frozen=True)
class HeadOfStatistics(FineTuning):
    """Base class of streaming LDA and RanPAC.

    The first step trains the backbone under a linear head by cross-entropy, unless it has nothing to train
    (``identity``, for features of an encoder). After that features never change, so the statistics of earlier classes
    stay valid and no step needs their images, not even exemplars.
    """

    head: ClassVar[str | None] = "linear"

    @abstractmethod
    def make_head(self, n_features: int, n_classes: int) -> Any:
        """Return a head without samples, with random numbers from torch's global generator."""

    @abstractmethod
    def add(self, step: Step, head: Any, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Add samples of new classes to the head."""

    def start(self, step: Step, before: Network | None) -> Network:
        if before is not None:
            network = copy.deepcopy(before)
            network.head = before.head.with_classes(step.n_seen)
            return network
        network = super().start(step, None)
        step.seed_torch("statistics")
        network.head = self.make_head(network.backbone.n_features, step.n_seen).to(step.fabric.device)
        return network

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        import torch

        from energyalign.experiments.engine.outputs import for_inference, outputs

        if step.number == 1 and list(network.backbone.parameters()):
            self._train_backbone(step, network, teacher)
        new = step.train.subset(np.flatnonzero(step.is_new))
        backbone = for_inference(network).backbone
        features = outputs(backbone, new, workers=step.workers, device=step.fabric.device)
        self.add(step, network.head, torch.from_numpy(features), torch.from_numpy(new.labels))

    def _train_backbone(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        from energyalign.experiments.nets.heads import make_head
        from energyalign.experiments.nets.network import Network

        step.seed_torch("head")
        head = make_head(step.config.head, network.backbone.n_features, step.n_seen).to(step.fabric.device)
        step.train_network(Network(network.backbone, head), self.loss(step, teacher))


@dataclass(frozen=True)
class StreamingLda(HeadOfStatistics):
    """Running class means and one shared covariance of the features; `LdaHead` has the formula.

    As in the original, the backbone is trained on the classes of a first part, or pre-trained, and no exemplars are
    needed. Two things differ. The covariance is the exact scatter around the class means, whatever the order of
    samples; the original's recursion measures the first sample of a class from zero instead of its mean. And the first
    step's covariance is estimated like all others, where the original uses the OAS estimate; both are shrunk.

    Attributes
    ----------
    shrinkage : float, default 1e-4
        Weight of the identity in the covariance.

    References
    ----------
    Hayes and Kanan 2020, Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis.
    """

    name: ClassVar[str] = "slda"

    shrinkage: float = 1e-4

    def make_head(self, n_features: int, n_classes: int) -> Any:
        from energyalign.experiments.nets.lda import LdaHead

        return LdaHead(n_features, n_classes, self.shrinkage)

    def add(self, step: Step, head: Any, features: torch.Tensor, labels: torch.Tensor) -> None:  # noqa: ARG002
        head.add(features, labels)


@dataclass(frozen=True)
class RanPac(HeadOfStatistics):
    """RanPAC: ridge regression on random ReLU features; `RandomProjectionHead` has the formula.

    As in the original, the ridge of all classes' weights is chosen in every step on a fifth of its new samples.

    The original adapts a pre-trained transformer to the first step by a few added parameters; here the whole backbone
    of the cell is trained in the first step, or features are frozen. The original has 10,000 random features, whose
    Gram matrix would take 800 MB in every step.

    Attributes
    ----------
    n_projected : int, default 2000
        Number of random features. It should exceed the number of features of the backbone.

    References
    ----------
    McDonnell et al. 2023, RanPAC: Random Projections and Pre-trained Models for Continual Learning.
    """

    name: ClassVar[str] = "ranpac"

    n_projected: int = 2000

    def make_head(self, n_features: int, n_classes: int) -> Any:
        from energyalign.experiments.nets.random_projection import RandomProjectionHead

        return RandomProjectionHead(n_features, n_classes, self.n_projected)

    def add(self, step: Step, head: Any, features: torch.Tensor, labels: torch.Tensor) -> None:
        ridge = head.add(features, labels, step.seed("ridge"))
        step.reporter.note(f"Ridge {ridge:g}, chosen on a fifth of the new samples.")
