"""A trained network with all that correctors may want to know of it, each computed once."""

from __future__ import annotations

from functools import cached_property

import torch
from lightning.fabric import Fabric

from energyalign.core.evidence import Evidence
from energyalign.data.images import ImageSet
from energyalign.experiment.evidence import EvidencePlan, draw_evidence
from energyalign.experiment.outputs import Floats32, outputs
from energyalign.longtail.data import LongTailData
from energyalign.longtail.setting import Setting
from energyalign.nets.network import Network
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

    @cached_property
    def test_logits(self) -> Floats32:
        """Of the network as trained."""
        return self.outputs(self.network, self.data.test)

    @cached_property
    def train_features(self) -> Floats32:
        """What the head sees of the training images, without augmentation, in the order of their labels' array."""
        return self.outputs(self.network.backbone, self.data.train)

    @cached_property
    def test_features(self) -> Floats32:
        """What the head sees of the test images."""
        return self.outputs(self.network.backbone, self.data.test)

    def evidence(self, plan: EvidencePlan) -> Evidence:
        """Balanced evidence from the training data; the same whenever it is asked for."""
        if plan not in self._evidence:
            self._evidence[plan] = self.fresh_evidence(self.network, plan)
        return self._evidence[plan]

    def fresh_evidence(self, network: torch.nn.Module, plan: EvidencePlan) -> Evidence:
        """The same images under another network."""
        seed, workers = self.setting.config.seed, self.setting.workers
        return draw_evidence(network, self.data.train, plan, seed, workers=workers)

    def outputs(self, network: torch.nn.Module, images: ImageSet) -> Floats32:
        """What a network says of all images, in their order."""
        return outputs(network, images, workers=self.setting.workers, device=self.fabric.device)
