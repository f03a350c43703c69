"""Application II, long-tailed recognition, from data to rows (Algorithm 2): an experiment with one step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.experiment import Experiment
from energyalign.experiments.engine.measure import RunFacts
from energyalign.experiments.engine.readable import refuse_unreadable
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.data import LongTailData, load_data
from energyalign.experiments.longtail.setting import Setting
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.checkpoint import weights_sha256
from energyalign.experiments.train.loop import Training
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.run_directory import RunDirectory


class LongTailExperiment(Experiment[LongTailConfig]):
    """One cell with one seed.

    Parameters
    ----------
    config : LongTailConfig
    data_root : path, optional
        Where the data set is.
    data : LongTailData, optional
        What `load_data` gave for a config with the same data, to read them once for many runs.
    **others
        See `Experiment`.
    """

    def __init__(
        self, config: LongTailConfig, *, data_root: str | Path | None = None, data: LongTailData | None = None,
        **others: Any,
    ) -> None:  # fmt: skip
        super().__init__(config, **others)
        self.data = load_data(config, data_root) if data is None else data

    @cached_property
    def cell(self) -> Setting:
        """What learners and correctors see of the run."""
        counts = torch.tensor(self.data.counts, dtype=torch.float32, device=self.fabric.device)
        return Setting(self.config, self.data.train, counts, self.workers, self.fabric.device)

    @property
    def facts(self) -> RunFacts:
        """The images."""
        return RunFacts(self.data.manifest.sha256)

    def check_protocol(self) -> None:
        """The network can be made."""
        self.config.learner.network(self.cell)

    def begin(self, run: RunDirectory) -> None:
        """Say what is run, and keep the manifest."""
        self.reporter.note(
            f"{self.config.name}, {self.config.learner.name}, {self.config.head} head, seed {self.config.seed}: "
            f"{len(self.data.train):,} training images of {self.data.train.n_classes} classes, manifest "
            f"{self.data.manifest.short_hash}."
        )
        if not self.fabric.broadcast((run.path / "rows.jsonl").exists()):  # a finished run has read them all
            refuse_unreadable(*filter(None, (self.data.train, self.data.test, self.data.validation)))
        if run.writes:
            self.data.manifest.keep(run.path / "manifest.json")

    def steps(self, run: RunDirectory) -> Iterator[Trained]:
        """The one step: all classes at once."""
        seed_torch(self.config.seed, "network")
        network = self.config.learner.network(self.cell)
        self._train(network, run)
        yield Trained(
            network=network, ground=self.cell, evidence_seed=self.config.seed, run=run, fabric=self.fabric,
            reporter=self.reporter, network_sha256=weights_sha256(network), sizes=(self.data.train.n_classes,),
            validation=self.data.validation,
        )  # fmt: skip

    def test_images(self, step: int) -> ImageSet:  # noqa: ARG002
        """All of them."""
        return self.data.test

    def _train(self, network: Network, run: RunDirectory) -> None:
        if run.read_rows() and not any(run.checkpoints.glob("*.safetensors")):
            raise EnergyAlignError(
                f"the training of {run.path} was finished, but its checkpoints are gone from {run.checkpoints}: put "
                f"them back, or remove {run.path} to train again."
            )
        learner = self.config.learner
        training = Training(
            self.fabric, network, parameters=learner.parameters(network), batches=learner.batches(self.cell),
            loss=learner.loss(self.cell), recipe=self.config.recipe, run=run, seed=self.config.seed,
            reporter=self.reporter, compile=self.config.compile,
        )  # fmt: skip
        training.finish()
        network.float().eval()  # whatever the precision of the training
