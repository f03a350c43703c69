"""A trained network with all that correctors may want to know of it, each computed once."""

from __future__ import annotations

from functools import cached_property

import torch
from lightning.fabric import Fabric

from energyalign.core.evidence import Evidence
from energyalign.data.images import ImageSet
from energyalign.experiment.evidence import EvidencePlan, as_evidence, drawn_outputs
from energyalign.experiment.for_inference import for_inference
from energyalign.experiment.outputs import Floats32, outputs, scores
from energyalign.longtail.data import LongTailData
from energyalign.longtail.setting import Setting
from energyalign.nets.network import Network
from energyalign.pytorch.store import LogitStore
from energyalign.train.reporter import Reporter
from energyalign.train.run_directory import RunDirectory


class Trained:
    """The end of a training.

    Parameters
    ----------
    network : Network
        In evaluation mode. Correctors copy it before they change it.
    setting : Setting
    data : LongTailData
    run : RunDirectory
        A corrector that trains does it in a folder below.
    fabric : Fabric
    reporter : Reporter
    """

    def __init__(
        self, network: Network, setting: Setting, data: LongTailData, *, run: RunDirectory, fabric: Fabric,
        reporter: Reporter,
    ) -> None:  # fmt: skip
        self.network, self.setting, self.data, self.run = network, setting, data, run
        self.fabric, self.reporter = fabric, reporter
        self._evidence: dict[EvidencePlan, Evidence] = {}
        self._evidence_features: dict[EvidencePlan, LogitStore] = {}

    @cached_property
    def test_logits(self) -> Floats32:
        """Of the network as trained."""
        return scores(self.network.head, self.test_features, device=self.fabric.device)

    @cached_property
    def train_features(self) -> Floats32:
        """What the head sees of the training images, without augmentation, in the order of their labels' array."""
        return self._features(self.data.train)

    @cached_property
    def test_features(self) -> Floats32:
        """What the head sees of the test images."""
        return self._features(self.data.test)

    def evidence(self, plan: EvidencePlan) -> Evidence:
        """Balanced evidence from the training data; the same whenever it is asked for."""
        if plan not in self._evidence:
            features, logits = self.evidence_features(plan), LogitStore()
            for block, labels in zip(features.blocks, features.labels, strict=True):
                said = scores(self.network.head, block, device=self.fabric.device)
                logits.append(torch.from_numpy(said), labels)
            self._evidence[plan] = as_evidence(logits, self.data.train)
        return self._evidence[plan]

    def evidence_features(self, plan: EvidencePlan) -> LogitStore:
        """What the head sees of the evidence, and the labels."""
        if plan not in self._evidence_features:
            seed, workers = self.setting.config.seed, self.setting.workers
            backbone = self._for_inference.backbone
            self._evidence_features[plan] = drawn_outputs(backbone, self.data.train, plan, seed, workers=workers)
        return self._evidence_features[plan]

    def outputs(self, network: Network, images: ImageSet) -> Floats32:
        """What another network says of all images, in their order."""
        return outputs(for_inference(network), images, workers=self.setting.workers, device=self.fabric.device)

    @cached_property
    def _for_inference(self) -> Network:
        return for_inference(self.network)

    def _features(self, images: ImageSet) -> Floats32:
        backbone = self._for_inference.backbone
        return outputs(backbone, images, workers=self.setting.workers, device=self.fabric.device)
