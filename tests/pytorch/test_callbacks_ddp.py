"""The Lightning callback in two real processes: counts and evidence of both, and the same network on both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec.*:FutureWarning"),  # Lightning's own, with a newer torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    # Forked, because new processes need most of a minute for their imports.
    pytest.mark.skipif(not (torch.distributed.is_available() and hasattr(os, "fork")), reason="needs forked ranks"),
]
L = pytest.importorskip("lightning.pytorch")

from energyalign.pytorch.lightning import EnergyAlignCallback  # noqa: E402

COUNTS = [400, 120, 40, 12]


def data(counts: list[int]) -> TensorDataset:
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor(counts))
    noise = torch.randn(len(labels), 6, generator=torch.Generator().manual_seed(0))
    return TensorDataset(noise + 1.5 * F.one_hot(labels, 6), labels)


class Module(L.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return F.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 1e-2)


class Witness(L.Callback):  # type: ignore[misc]
    """Records the result of each process: only the weights are returned from it."""

    def __init__(self, aligning: EnergyAlignCallback, folder: Path) -> None:
        self.aligning, self.folder = aligning, folder

    def on_train_epoch_end(self, _: Any, pl_module: Any) -> None:
        self.raw = pl_module.net.bias.detach().clone()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        shifts = self.aligning.shifts_
        np.savez(
            self.folder / f"{trainer.global_rank}.npz", values=shifts.values, counts=shifts.counts,
            n_samples=shifts.n_samples, added=(pl_module.net.bias - self.raw).detach().numpy(),
        )  # fmt: skip


def test_two_processes_align_on_the_data_of_both(tmp_path: Path) -> None:
    """In a separate process: torch refuses to fork a process that has run a backward pass, as other tests do."""
    if "ENERGYALIGN_MAY_FORK" not in os.environ:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__]
        child = subprocess.run(
            command, env=os.environ | {"ENERGYALIGN_MAY_FORK": "1"}, capture_output=True, text=True, check=False
        )
        assert child.returncode == 0, child.stdout
        return
    callback = EnergyAlignCallback(estimator="prior")
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp_fork",
        callbacks=[callback, Witness(callback, tmp_path)],
        enable_progress_bar=False, enable_model_summary=False, logger=False, enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(data(COUNTS), 32, shuffle=True), DataLoader(data([20] * 4), 20))
    ranks = [np.load(tmp_path / f"{rank}.npz") for rank in range(2)]
    for found in ranks:
        np.testing.assert_array_equal(found["counts"], COUNTS)
        assert found["n_samples"] == 80
        np.testing.assert_allclose(found["added"], found["values"], atol=1e-5)
    np.testing.assert_array_equal(ranks[0]["values"], ranks[1]["values"])
