"""Application II from data to rows: train, draw evidence, correct, measure."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from lightning.fabric import Fabric
from torch.nn import functional as F

from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.data.loader import evaluation_batches, make_loader
from energyalign.data.verify import verify_images
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import find_corrector
from energyalign.longtail.data import load_data
from energyalign.longtail.evidence import EvidencePlan, draw_evidence
from energyalign.longtail.rows import Row, make_row
from energyalign.nets.network import Network, make_network
from energyalign.train.loop import Training
from energyalign.train.randomness import derived_seed, seed_torch
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
    fabric : Fabric, optional
        Device, precision, processes; by default this process on the CPU.
    reporter : Reporter, optional
    workers : int
        Processes that read images; for sets that are not in memory.
    """

    def __init__(
        self,
        config: LongTailConfig,
        *,
        data_root: str | Path | None = None,
        fabric: Fabric | None = None,
        reporter: Reporter | None = None,
        workers: int = 0,
    ) -> None:
        self.config, self.workers = config, workers
        self.fabric = Fabric(accelerator="cpu", devices=1) if fabric is None else fabric
        self.reporter = Reporter() if reporter is None else reporter
        self.data = load_data(config, data_root)

    def run(self, folder: Path, correctors: Sequence[str], *plans: EvidencePlan) -> list[Row]:
        """Train, or go on with, the run in this folder and measure it under every corrector.

        With several plans, a corrector that looks at the evidence has a row for each of them. Returns the rows of
        these correctors; those of others that the folder has already stay in it.
        """
        for name in correctors:
            find_corrector(name)
        with opened(folder, self.config.to_json()) as run:
            manifest = self.data.manifest
            manifest.save(folder / "manifest.json")
            self.reporter.note(
                f"{self.config.name}, seed {self.config.seed}: {len(self.data.train):,} training images of "
                f"{self.data.train.n_classes} classes, manifest {manifest.short_hash}."
            )
            if not (run.path / "rows.jsonl").exists():  # a finished run has read them all
                verify_images(self.data.train)
                verify_images(self.data.test)
            network = self._trained(run)
            rows = self._measured(network, run, correctors, plans or (EvidencePlan(),))
            new = {_key(row) for row in rows}
            run.write_rows(sorted([*rows, *(row for row in run.read_rows() if _key(row) not in new)], key=_key))
        return rows

    def _trained(self, run: RunDirectory) -> Network:
        config, train = self.config, self.data.train
        seed_torch(config.seed, "network")
        network = make_network(
            config.backbone, train.n_classes, head=config.head, scale=config.scale,
            learned_scale=config.learned_scale, in_channels=train.read(0).shape[0],
        )  # fmt: skip
        loader = make_loader(
            train, batch_size=config.recipe.batch_size, seed=derived_seed(config.seed, "data"), workers=self.workers,
            device=self.fabric.device,
        )  # fmt: skip
        training = Training(
            self.fabric, network, batches=loader, loss=_cross_entropy, recipe=config.recipe, run=run, seed=config.seed,
            reporter=self.reporter,
        )  # fmt: skip
        training.finish()
        network.eval()
        return network

    def _measured(
        self, network: Network, run: RunDirectory, correctors: Sequence[str], plans: Sequence[EvidencePlan]
    ) -> list[Row]:
        test = self._test_logits(network)
        save_arrays(run.path / "test_logits.safetensors", {"logits": test, "labels": self.data.test.labels})
        rows = []
        for plan in plans:
            evidence = draw_evidence(network, self.data, plan, self.config.seed, workers=self.workers)
            for name in correctors:
                corrector = find_corrector(name)
                if plan is not plans[0] and not corrector.reads_evidence:
                    continue  # it would only repeat itself
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UntrustedEstimateWarning)  # they are in the row, and in the table
                    shifts = corrector.fit(evidence)
                about = {"corrector": name, "evidence": {"per_class": plan.per_class, "policy": plan.policy}}
                rows.append(about | make_row(self.config, self.data, shifts, test))
        return rows

    def _test_logits(self, network: Network) -> npt.NDArray[np.float32]:
        batches = evaluation_batches(self.data.test, batch_size=500, workers=self.workers, device=self.fabric.device)
        with torch.inference_mode():
            return np.concatenate([network(batch.images).float().cpu().numpy() for batch in batches])


def _cross_entropy(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
    return F.cross_entropy(model(batch.images), batch.labels)


def _key(row: Row) -> tuple[str, str, int]:
    """Rows of one run differ in these."""
    return row["corrector"], row["evidence"]["policy"], row["evidence"]["per_class"]
