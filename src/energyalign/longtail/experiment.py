"""Application II from data to rows: train, draw evidence, correct, measure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric

from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.evidence import EvidencePlan
from energyalign.experiment.readable import refuse_unreadable
from energyalign.experiment.rows import Row, store_row
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import Corrector, find_corrector
from energyalign.longtail.data import LongTailData, load_data
from energyalign.longtail.rows import make_row
from energyalign.longtail.setting import Setting
from energyalign.longtail.trained import Trained
from energyalign.nets.network import Network
from energyalign.train.describe import described
from energyalign.train.loop import Training
from energyalign.train.randomness import seed_torch
from energyalign.train.reporter import Reporter
from energyalign.train.run_directory import RunDirectory, opened
from energyalign.train.tensor_file import save_arrays


class LongTailExperiment:
    """One cell with one seed.

    Parameters
    ----------
    config : LongTailConfig
    data_root : path, optional
        Where the data set is.
    data : LongTailData, optional
        What `load_data` gave for a config with the same data, to read them once for many runs.
    fabric : Fabric, optional
        Device, precision, processes; by default this process on the CPU.
    reporter : Reporter, optional
    workers : int
        Processes that read images; for sets that are not in memory.
    command : str
        The command line that asks for this run, for its record.
    """

    def __init__(
        self,
        config: LongTailConfig,
        *,
        data_root: str | Path | None = None,
        data: LongTailData | None = None,
        fabric: Fabric | None = None,
        reporter: Reporter | None = None,
        workers: int = 0,
        command: str = "",
    ) -> None:
        self.config, self.workers, self.command = config, workers, command
        self.fabric = Fabric(accelerator="cpu", devices=1, precision=config.precision) if fabric is None else fabric
        self.reporter = Reporter() if reporter is None else reporter
        self.data = load_data(config, data_root) if data is None else data

    def run(self, folder: Path, correctors: Sequence[str], *plans: EvidencePlan) -> list[Row]:
        """Train, or go on with, the run in this folder and measure it under every corrector.

        With several plans, a corrector that looks at the evidence has a row for each of them. Returns the rows of
        these correctors; those of others that the folder has already stay in it.
        """
        chosen = self.check(correctors)
        setting = self._setting()
        seed_torch(self.config.seed, "network")
        network = self.config.learner.network(setting)
        with opened(folder, self.config.to_json(), self.fabric) as run:
            run.note_command(self.command)
            self.reporter.note(
                f"{self.config.name}, {self.config.learner.name}, {self.config.head} head, seed {self.config.seed}: "
                f"{len(self.data.train):,} training images of {self.data.train.n_classes} classes, manifest "
                f"{self.data.manifest.short_hash}."
            )
            if not self.fabric.broadcast((run.path / "rows.jsonl").exists()):  # a finished run has read them all
                refuse_unreadable(self.data.train, self.data.test)
            if run.writes:
                self.data.manifest.keep(folder / "manifest.json")
            self._train(network, setting, run)
            trained = Trained(network, setting, self.data, run=run, fabric=self.fabric, reporter=self.reporter)
            return self._measure(trained, chosen, plans or (EvidencePlan(),))

    def check(self, correctors: Sequence[str]) -> dict[str, Corrector]:
        """The correctors of these names, if they can correct what will be trained.

        What cannot be is refused here, before there is a run directory, and before hours of training.
        """
        chosen = {name: find_corrector(name) for name in correctors}
        setting = self._setting()
        self.config.learner.network(setting)
        for corrector in chosen.values():
            corrector.check(setting)
        return chosen

    def _setting(self) -> Setting:
        counts = torch.tensor(self.data.counts, dtype=torch.float32, device=self.fabric.device)
        return Setting(self.config, self.data.train, counts, self.workers, self.fabric.device)

    def _train(self, network: Network, setting: Setting, run: RunDirectory) -> None:
        if run.read_rows() and not any(run.checkpoints.glob("*.safetensors")):
            raise EnergyAlignError(
                f"the training of {run.path} was finished, but its checkpoints are gone from {run.checkpoints}: put "
                f"them back, or remove {run.path} to train again."
            )
        learner = self.config.learner
        training = Training(
            self.fabric, network, parameters=learner.parameters(network), batches=learner.batches(setting),
            loss=learner.loss(setting), recipe=self.config.recipe, run=run, seed=self.config.seed,
            reporter=self.reporter, compile=self.config.compile,
        )  # fmt: skip
        training.finish()
        network.float().eval()  # whatever the precision of the training

    def _measure(
        self, trained: Trained, correctors: Mapping[str, Corrector], plans: Sequence[EvidencePlan]
    ) -> list[Row]:
        stored: dict[str, Any] = {"logits": trained.test_logits, "labels": self.data.test.labels}
        if trained.run.writes:
            save_arrays(trained.run.path / "test_logits.safetensors", stored)
        rows = []
        for plan in plans:
            for name, corrector in correctors.items():
                if plan is not plans[0] and not corrector.reads_evidence:
                    continue  # it would only repeat itself
                about = {"corrector": name, "evidence": described(plan) if corrector.reads_evidence else None}
                rows.append(about | make_row(self.config, self.data, corrector.correct(trained, plan)))
                store_row(trained.run, rows[-1], _key)  # at once: the next corrector may train for hours
        return rows


def _key(row: Row) -> tuple[str, str]:
    """Rows of one run differ in these."""
    return row["corrector"], json.dumps(row["evidence"], sort_keys=True)
