"""The Lightning callback on real trainings: aligned at the end, the user's loop as it was."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from energyalign import EnergyAlignError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec.*:FutureWarning"),  # Lightning's own, with a newer torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]
L = pytest.importorskip("lightning.pytorch")

from energyalign.pytorch.lightning import EnergyAlignCallback  # noqa: E402

COUNTS = [400, 120, 40, 12]


def data(counts: list[int], seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor(counts))
    return TensorDataset(torch.randn(len(labels), 6, generator=generator) + 1.5 * F.one_hot(labels, 6), labels)


class Module(L.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("loss", F.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 1e-2)


class WithoutForward(Module):
    forward = L.LightningModule.forward


def fit(module: Any, callbacks: list[Any], *, val: bool = True, seed: int = 0, **options: Any) -> Any:
    trainer = L.Trainer(
        max_epochs=3, callbacks=callbacks, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        **{"logger": False, "enable_checkpointing": False, **options},
    )  # fmt: skip
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(data(COUNTS, 0), 32, shuffle=True, generator=order)
    trainer.fit(module, loader, DataLoader(data([60] * 4, 1), 64) if val else None)
    return trainer


def test_the_network_comes_out_aligned_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    plain, aligned, callback = Module(), Module(), EnergyAlignCallback()
    fit(plain, [])
    fit(aligned, [callback])
    x, y = data([200] * 4, 2).tensors
    raw, corrected = plain.eval()(x).detach(), aligned.eval()(x).detach()
    torch.testing.assert_close(
        corrected, raw + torch.tensor(callback.shifts_.values, dtype=torch.float32), rtol=0, atol=1e-5
    )
    before, after = ((out.argmax(1) == y).double().mean() for out in (raw, corrected))
    assert after > before + 0.03  # on data that neither training nor aligning saw
    metrics = callback.metrics_
    assert metrics["balanced_accuracy_after"] > metrics["balanced_accuracy_before"]
    assert abs(metrics["balanced_accuracy_after"] - float(after)) < 0.1
    assert callback.shifts_.evidence_kind == "held-out"
    np.testing.assert_array_equal(callback.shifts_.counts, COUNTS)
    assert "balanced accuracy" in capsys.readouterr().out
    assert callback.aligned_ is aligned


def test_without_validation_data_the_training_data_serve_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="monotone")
    fit(Module(), [callback], val=False)
    assert callback.shifts_.evidence_kind == "training"
    assert "flattered: the model was trained on them" in capsys.readouterr().out


def test_given_evidence_and_counts_win() -> None:
    callback = EnergyAlignCallback(
        DataLoader(data([10] * 4, 3), 20), evidence="held-out", counts=[9, 5, 3, 1], estimator="prior"
    )
    fit(Module(), [callback])
    assert callback.shifts_.n_samples == 40
    np.testing.assert_allclose(np.diff(callback.shifts_.values), np.log([9 / 5, 5 / 3, 3]))


def test_checkpoints_of_the_training_hold_the_raw_network(tmp_path: Path) -> None:
    callback, module = EnergyAlignCallback(estimator="prior"), Module()
    trainer = fit(module, [callback], enable_checkpointing=True, default_root_dir=tmp_path)
    saved = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=True)["state_dict"]
    difference = (module.net[-1].bias - saved["net.3.bias"]).detach().numpy()
    np.testing.assert_allclose(difference, callback.shifts_.values, atol=1e-5)
    trainer.save_checkpoint(tmp_path / "aligned.ckpt")
    aligned = torch.load(tmp_path / "aligned.ckpt", weights_only=True)["state_dict"]
    assert torch.equal(aligned["net.3.bias"], module.net[-1].bias)


def test_metrics_reach_the_loggers(tmp_path: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    callback = EnergyAlignCallback()
    fit(Module(), [callback], logger=CSVLogger(tmp_path))
    table = next(tmp_path.rglob("metrics.csv")).read_text()
    assert "energyalign/balanced_accuracy_after" in table
    assert str(callback.metrics_["balanced_accuracy_after"]) in table


def test_a_module_without_forward_names_its_network() -> None:
    with pytest.raises(EnergyAlignError, match="has no forward of its own: name the attribute"):
        fit(WithoutForward(), [EnergyAlignCallback()])
    with pytest.raises(EnergyAlignError, match="has no network called 'body'"):
        fit(WithoutForward(), [EnergyAlignCallback(network="body")])
    callback = EnergyAlignCallback(network="net")
    fit(WithoutForward(), [callback])
    assert callback.aligned_ is not None


def test_training_is_not_lost_when_aligning_fails() -> None:
    module, plain = Module(), Module()
    fit(plain, [])
    with pytest.warns(UserWarning, match="NOT aligned and is as training left it: training counts must have shape"):
        fit(module, [EnergyAlignCallback(counts=[1, 2, 3])])
    assert all(
        torch.equal(a, b) for a, b in zip(module.state_dict().values(), plain.state_dict().values(), strict=True)
    )


def test_a_loader_needs_its_kind() -> None:
    with pytest.raises(EnergyAlignError, match="give loader= and evidence= together"):
        EnergyAlignCallback([])


def test_training_itself_is_not_disturbed() -> None:
    """The same weights as without the callback, but for the bias of the head."""
    plain, aligned = Module(), Module()
    fit(plain, [])
    fit(aligned, [EnergyAlignCallback()])
    changed = {
        name
        for name, value in copy.deepcopy(plain.state_dict()).items()
        if not torch.equal(value, aligned.state_dict()[name])
    }
    assert changed == {"net.3.bias"}
