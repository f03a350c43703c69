"""Application II, long-tailed recognition (Algorithm 2): an experiment with one step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.cut import choose_of_each_class, cut_long_tail
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.sources import Source, open_source
from energyalign.experiments.engine.experiment import Experiment, refuse_unreadable
from energyalign.experiments.engine.measurement import RunFacts
from energyalign.experiments.engine.trained import Ground, Trained
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.checkpoint import weights_sha256
from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.randomness import derived_seed, seed_torch
from energyalign.experiments.train.run_directory import RunDirectory


class LongTailData(NamedTuple):
    """The images of a run and their manifest.

    Attributes
    ----------
    validation : ImageSet or None
        Validation images, if the data set has any, for correctors that choose a hyper-parameter.
    held_out : ImageSet or None
        Images of the manifest that are not trained on.
    """

    train: ImageSet
    test: ImageSet
    manifest: Manifest
    validation: ImageSet | None = None
    held_out: ImageSet | None = None

    @property
    def counts(self) -> Ints:
        """Training images per class."""
        return np.bincount(self.train.labels, minlength=self.train.n_classes)

    def holding_out(self, share: float, seed: int) -> LongTailData:
        """Hold out a share of the training images of each class; a class of one image keeps it for training."""
        if share == 0:
            return self
        chosen = choose_of_each_class(self.train.labels, share, np.random.default_rng(seed))
        train, held_out = (self.train.subset(np.flatnonzero(part)) for part in (~chosen, chosen))
        return self._replace(train=train, held_out=held_out)


def load_data(
    config: LongTailConfig, data_root: str | Path | None = None, source: Source | None = None
) -> LongTailData:
    """Load the source, by default the config's, and cut it as the config says."""
    source = source or open_source(config.dataset, data_root)
    train, test = source.load("train"), source.load("test")
    manifest = cut_long_tail(
        train, dataset=config.dataset, profile=config.profile,
        imbalance=1.0 if config.imbalance is None else config.imbalance,
        seed=config.split_seed, test=test,
    )  # fmt: skip
    validation = source.load("val") if source.has_validation else None
    return LongTailData(manifest.select(train), test, manifest, validation)


@dataclass(frozen=True, eq=False)
class Setting(Ground):
    """What learners see of a run: everything that losses, samplers and networks may depend on.

    Attributes
    ----------
    counts : torch.Tensor
        Training images per class, float32, on the device.
    workers : int
        Number of processes that read images.
    """

    config: LongTailConfig
    train: ImageSet
    counts: torch.Tensor
    workers: int
    device: torch.device

    @property
    def n_epochs(self) -> int:
        return self.config.recipe.epochs

    @property
    def has_photographs(self) -> bool:
        """Whether images are files of any size, as in ImageNet-LT and iNaturalist."""
        return isinstance(self.train, FileImages)

    def seed(self, *what: str | int) -> int:
        return derived_seed(self.config.seed, *what)


class LongTailExperiment(Experiment[LongTailConfig]):
    """A long-tailed run.

    Parameters
    ----------
    config : LongTailConfig
    data_root : path, optional
        Directory of the data set.
    data : LongTailData, optional
        The result of `load_data` for a config with the same data, to load them once for many runs.
    **others
        See `Experiment`.
    """

    def __init__(
        self, config: LongTailConfig, *, data_root: str | Path | None = None, data: LongTailData | None = None,
        **others: Any,
    ) -> None:  # fmt: skip
        super().__init__(config, **others)
        data = load_data(config, data_root) if data is None else data
        self.data = data.holding_out(config.held_out, derived_seed(config.split_seed, "held-out"))

    @property
    def manifest(self) -> Manifest:
        return self.data.manifest

    @property
    def train(self) -> ImageSet:
        return self.data.train

    @property
    def setting(self) -> Setting:
        counts = torch.tensor(self.data.counts, dtype=torch.float32, device=self.fabric.device)
        return Setting(self.config, self.train, counts, self.workers, self.fabric.device)

    @property
    def facts(self) -> RunFacts:
        return RunFacts(self.data.manifest.sha256)

    @property
    def validation(self) -> ImageSet | None:
        return self.data.validation

    def check_protocol(self) -> None:
        self.config.learner.network(self.setting)  # raises an error if it cannot be made

    def begin(self, run: RunDirectory) -> None:
        held_out = "" if self.data.held_out is None else f" ({len(self.data.held_out):,} more held out)"
        self.reporter.note(
            f"{self.config.name}, {self.config.learner.name}, {self.config.head} head, seed {self.config.seed}: "
            f"{len(self.data.train):,} training {self.train.unit}s of {self.data.train.n_classes} classes{held_out}, "
            f"manifest {self.data.manifest.short_hash}."
        )
        if not self.fabric.broadcast((run.path / "rows.jsonl").exists()):  # a finished run has read all images
            refuse_unreadable(
                *filter(None, (self.data.train, self.data.test, self.data.validation, self.data.held_out))
            )
        if run.writes:
            with run.saving() as folder:
                self.data.manifest.keep(folder / "manifest.json")

    def steps(self, run: RunDirectory) -> Iterator[Trained]:
        seed_torch(self.config.seed, "network")
        network = self.config.learner.network(self.setting)
        self._train(network, run)
        yield Trained(
            network=network, ground=self.setting, evidence_seed=self.config.seed, run=run, fabric=self.fabric,
            reporter=self.reporter, network_sha256=weights_sha256(network), sizes=(self.data.train.n_classes,),
            validation=self.data.validation, held_out=self.data.held_out,
        )  # fmt: skip

    def test_images(self, step: int) -> ImageSet:  # noqa: ARG002
        return self.data.test

    def _train(self, network: Network, run: RunDirectory) -> None:
        if run.read_rows() and not any(run.checkpoints.glob("*.safetensors")):
            raise EnergyAlignError(
                f"the training of {run.path} was finished, but its checkpoints are missing from {run.checkpoints}: put "
                f"them back, or remove {run.path} to train again."
            )
        learner = self.config.learner
        training = TrainingLoop(
            self.fabric, network, parameters=learner.parameters(network), batches=learner.batches(self.setting),
            loss=learner.loss(self.setting), recipe=self.config.recipe, run=run, seed=self.config.seed,
            reporter=self.reporter, compile=self.config.compile,
        )  # fmt: skip
        training.finish()
        network.float().eval()  # whatever the precision of the training
