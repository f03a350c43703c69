"""The end of a step, with all that correctors may want to know of it, each computed once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import torch

from energyalign.core.evidence import Evidence
from energyalign.data.images import ImageSet
from energyalign.experiment.evidence import EvidencePlan, draw_evidence
from energyalign.experiment.for_inference import for_inference
from energyalign.experiment.outputs import Floats32, outputs, scores
from energyalign.incremental.record import StepRecord
from energyalign.incremental.step import Step
from energyalign.nets.network import Network


class AfterStep:
    """A trained step.

    Parameters
    ----------
    step : Step
    network : Network
        As trained, in evaluation mode. Correctors copy what they change.
    exemplars : ImageSet
        The memory with which the next step will begin: of all classes seen, the new ones too.
    records : sequence of StepRecord
        Of the steps before and of this one.
    network_sha256 : str
        Of the file of the network: rows are of this one and no other.
    """

    def __init__(
        self, step: Step, network: Network, exemplars: ImageSet, records: Sequence[StepRecord], *, network_sha256: str
    ) -> None:
        self.step, self.network, self.exemplars, self.records = step, network, exemplars, tuple(records)
        self.network_sha256 = network_sha256
        self._evidence: dict[EvidencePlan, Evidence] = {}

    @cached_property
    def for_inference(self) -> Network:
        """The network as trained, faster."""
        return for_inference(self.network)

    def copied_head(self) -> torch.nn.Module:
        """The head as trained, in a copy that may be changed."""
        return copy.deepcopy(self.network.head)

    def evidence(self, plan: EvidencePlan) -> Evidence:
        """Balanced evidence from new images and memory; the same whenever it is asked for."""
        if plan not in self._evidence:
            self._evidence[plan] = draw_evidence(
                self.for_inference, self.step.train, plan, self.step.seed("evidence"), workers=self.step.workers
            )
        return self._evidence[plan]

    @cached_property
    def train_features(self) -> Floats32:
        """What the head sees of the training images, without augmentation, in the order of ``step.train``."""
        return self.features(self.step.train)

    @cached_property
    def train_logits(self) -> Floats32:
        """Of the network as trained, for the same images."""
        return self.scores(self.network.head, self.train_features)

    def features(self, images: ImageSet) -> Floats32:
        """What the head sees of some images."""
        return outputs(self.for_inference.backbone, images, workers=self.step.workers, device=self.step.fabric.device)

    def scores(self, head: torch.nn.Module, features: Floats32) -> Floats32:
        """What a head says of some features."""
        return scores(head, features, device=self.step.fabric.device)
