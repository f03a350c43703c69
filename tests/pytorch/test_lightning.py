"""The Lightning callback in real trainings: aligned at the end, with an unchanged training loop."""

from __future__ import annotations

import copy
import itertools
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from energyalign import EnergyAlignError
from energyalign.pytorch import AlignedModel, align

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec.*:FutureWarning"),  # Lightning's own, with a newer torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:Swapping scheduler"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]
L = pytest.importorskip("lightning.pytorch")

from energyalign.pytorch.lightning import EnergyAlignCallback  # noqa: E402

COUNTS = [400, 120, 40, 12]


def data(counts: list[int], seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor(counts))
    return TensorDataset(torch.randn(len(labels), 6, generator=generator) + 1.5 * F.one_hot(labels, 6), labels)


BALANCED = DataLoader(data([60] * 4, 1), 64)


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


def fit(
    module: Any, callbacks: list[Any], *, val: Any = BALANCED, train: Any = None, resume: Any = None, **options: Any
) -> Any:
    trainer = L.Trainer(
        callbacks=callbacks, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        **{"max_epochs": 3, "logger": False, "enable_checkpointing": False, **options},
    )  # fmt: skip
    loader = DataLoader(train or data(COUNTS, 0), 32, shuffle=True, generator=torch.Generator().manual_seed(0))
    trainer.fit(module, loader, val, ckpt_path=resume)
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
    assert after > before + 0.03  # on data used neither for training nor for aligning
    metrics = callback.metrics_
    assert metrics["balanced_accuracy_after"] > metrics["balanced_accuracy_before"]
    assert abs(metrics["balanced_accuracy_after"] - float(after)) < 0.1
    assert callback.shifts_.evidence_kind == "held-out"
    np.testing.assert_array_equal(callback.shifts_.counts, COUNTS)
    assert "balanced accuracy" in capsys.readouterr().out
    assert callback.aligned_ is aligned


def test_without_validation_data_the_training_data_serve_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="monotone")
    fit(Module(), [callback], val=None)
    assert callback.shifts_.evidence_kind == "training"
    assert "too high: the model was trained on them" in capsys.readouterr().out


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
    with pytest.raises(EnergyAlignError, match="has no forward: name the attribute"):
        fit(WithoutForward(), [EnergyAlignCallback()])
    with pytest.raises(EnergyAlignError, match="has no module named 'body'"):
        fit(WithoutForward(), [EnergyAlignCallback(network="body")])
    callback = EnergyAlignCallback(network="net")
    fit(WithoutForward(), [callback])
    assert callback.aligned_ is not None


def test_training_is_not_lost_when_aligning_fails() -> None:
    module, plain = Module(), Module()
    fit(plain, [])
    with pytest.warns(UserWarning, match="NOT aligned and is unchanged: training counts must have shape"):
        fit(module, [EnergyAlignCallback(counts=[1, 2, 3])])
    assert all(
        torch.equal(a, b) for a, b in zip(module.state_dict().values(), plain.state_dict().values(), strict=True)
    )


def test_misspelt_options_are_refused_before_training() -> None:
    with pytest.raises(EnergyAlignError, match="evidence must be one of training"):
        EnergyAlignCallback([], evidence="heldout")
    with pytest.raises(EnergyAlignError, match="unknown estimator 'lsee'"):
        EnergyAlignCallback(estimator="lsee")


def test_a_loader_needs_its_kind() -> None:
    with pytest.raises(EnergyAlignError, match="give loader= and evidence= together"):
        EnergyAlignCallback([])


def test_training_itself_is_not_disturbed() -> None:
    """The weights are the same as without the callback, except for the bias of the head."""
    plain, aligned = Module(), Module()
    fit(plain, [])
    fit(aligned, [EnergyAlignCallback()])
    changed = {
        name
        for name, value in copy.deepcopy(plain.state_dict()).items()
        if not torch.equal(value, aligned.state_dict()[name])
    }
    assert changed == {"net.3.bias"}


class Scaled(Module):
    """Gets inputs 128 times too large, and rescales them in a batch hook; a power of two needs no rounding."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self.hook, self.trained_last = hook, False

    def on_before_batch_transfer(self, batch: Any, _: int) -> Any:
        return self.mended(batch, "on_before_batch_transfer")

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return self.mended(super().transfer_batch_to_device(batch, device, dataloader_idx), "transfer_batch_to_device")

    def on_after_batch_transfer(self, batch: Any, _: int) -> Any:
        self.trained_last = self.trainer.training
        return self.mended(batch, "on_after_batch_transfer")

    def mended(self, batch: Any, hook: str) -> Any:
        return [batch[0] / 128, batch[1]] if hook == self.hook else batch


def scaled(counts: list[int], seed: int) -> TensorDataset:
    x, y = data(counts, seed).tensors
    return TensorDataset(128 * x, y)


@pytest.mark.parametrize("hook", ["on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"])
def test_the_evidence_goes_through_the_batch_hooks(hook: str) -> None:
    plain, callback = EnergyAlignCallback(), EnergyAlignCallback()
    fit(Module(), [plain])
    module = Scaled(hook)
    fit(module, [callback], train=scaled(COUNTS, 0), val=DataLoader(scaled([60] * 4, 1), 64))
    np.testing.assert_allclose(callback.shifts_.values, plain.shifts_.values, atol=1e-6)
    assert not module.trained_last  # hooks augment in training, but must not augment held-out data


@pytest.mark.parametrize("precision", ["bf16-true", "bf16-mixed"])
def test_half_precision_is_aligned_in_its_own_precision(precision: str) -> None:
    module, callback = Module(), EnergyAlignCallback()
    fit(module, [callback], precision=precision)
    assert callback.aligned_ is module
    assert callback.metrics_["balanced_accuracy_after"] > callback.metrics_["balanced_accuracy_before"]


def averaging() -> list[Any]:
    """Return the weight-averaging callback of this version of Lightning."""
    newer = [getattr(L.callbacks, name, None) for name in ("WeightAveraging", "EMAWeightAveraging")]
    return [L.callbacks.StochasticWeightAveraging(1e-2), *(kind() for kind in newer if kind is not None)]


@pytest.mark.parametrize("other", averaging(), ids=lambda other: type(other).__name__)
def test_weights_are_averaged_before_they_are_aligned(other: Any) -> None:
    with pytest.raises(EnergyAlignError, match="put EnergyAlignCallback last in the list"):
        fit(Module(), [EnergyAlignCallback(), copy.deepcopy(other)])
    plain, aligned, callback = Module(), Module(), EnergyAlignCallback(estimator="prior")
    fit(plain, [copy.deepcopy(other)])
    fit(aligned, [copy.deepcopy(other), callback])
    difference = (aligned.net[-1].bias - plain.net[-1].bias).detach().numpy()
    np.testing.assert_allclose(difference, callback.shifts_.values, atol=1e-5)


class Unreadable:
    def __iter__(self) -> Any:
        raise OSError("the disk is gone")


def test_no_error_whatever_loses_the_training_or_leaves_old_results() -> None:
    module, callback = Module(), EnergyAlignCallback()
    fit(module, [callback], max_epochs=1)
    callback.loader, callback.evidence = Unreadable(), "held-out"
    with pytest.warns(UserWarning, match="NOT aligned and is unchanged: OSError: the disk is gone"):
        fit(module, [callback], max_epochs=1)
    assert not any(hasattr(callback, name) for name in ("shifts_", "aligned_", "metrics_"))
    assert not hasattr(module, "shifts_")
    assert callback.report() == "energyalign: the model was not aligned."


def test_a_model_stays_aligned_if_only_measuring_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no memory")

    plain, aligned, callback = Module(), Module(), EnergyAlignCallback(estimator="prior")
    fit(plain, [])
    monkeypatch.setattr("energyalign.pytorch.after_training.before_and_after", fail)
    fit(aligned, [callback])
    difference = (aligned.net[-1].bias - plain.net[-1].bias).detach().numpy()
    np.testing.assert_allclose(difference, callback.shifts_.values, atol=1e-5)
    assert callback.metrics_ == {}
    assert "accuracy was not measured: RuntimeError: no memory" in capsys.readouterr().out


def test_one_sample_of_each_class_cannot_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lightning.pytorch.loggers import CSVLogger

    callback = EnergyAlignCallback(estimator="prior")
    fit(Module(), [callback], val=DataLoader(data([1] * 4, 1), 4), logger=CSVLogger(tmp_path))
    assert callback.metrics_ == {}
    assert "accuracy was not measured: no class has two samples" in capsys.readouterr().out
    assert "nan" not in next(tmp_path.rglob("metrics.csv")).read_text()


class WithFunctionalHead(Module):
    """No module computes the logits, so nothing can be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.ParameterList([torch.randn(4, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.net[0])

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return F.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        pass


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_a_network_that_is_not_corrected_itself_is_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lightning.pytorch.loggers import CSVLogger

    module, callback = WithFunctionalHead(), EnergyAlignCallback()
    with pytest.warns(UserWarning, match="not folded"):
        fit(module, [callback], logger=CSVLogger(tmp_path))
    assert isinstance(callback.aligned_, AlignedModel)
    assert not hasattr(module, "shifts_")
    assert "the trainer's own model is unchanged; use callback.aligned_" in capsys.readouterr().out
    header, *_, last = next(tmp_path.rglob("metrics.csv")).read_text().splitlines()
    assert dict(zip(header.split(","), last.split(","), strict=True))["energyalign/folded"] == "0.0"


def test_training_on_counts_and_aligns_anew() -> None:
    module, callback = Module(), EnergyAlignCallback(estimator="prior")
    fit(module, [callback], max_epochs=1)
    first = callback.shifts_
    assert module.shifts_ is first
    with pytest.raises(EnergyAlignError, match="already aligned"):
        align(module, BALANCED)
    fit(module, [callback], max_epochs=1, train=data([100, 50, 20, 10], 0))
    np.testing.assert_array_equal(callback.shifts_.counts, [100, 50, 20, 10])  # not added to those of the first
    assert module.shifts_ is callback.shifts_ is not first


def test_a_resumed_run_knows_the_counts(tmp_path: Path) -> None:
    fit(Module(), [EnergyAlignCallback()], max_epochs=1, enable_checkpointing=True, default_root_dir=tmp_path)
    callback = EnergyAlignCallback()
    fit(Module(), [callback], max_epochs=2, train=data([100, 50, 20, 10], 0), resume=next(tmp_path.rglob("*.ckpt")))
    np.testing.assert_array_equal(callback.shifts_.counts, COUNTS)


@pytest.fixture
def amid_an_epoch(tmp_path: Path) -> Path:
    """Return a checkpoint after 5 of 18 batches."""
    save = L.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=5)
    fit(Module(), [save], max_steps=5, enable_checkpointing=True)
    return next(tmp_path.rglob("*.ckpt"))


def test_the_rest_of_an_epoch_is_not_counted(amid_an_epoch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="per-class")
    fit(Module(), [callback], max_epochs=1, resume=amid_an_epoch)
    assert "the training counts are unknown: give counts=..." in capsys.readouterr().out


def test_the_epoch_after_it_is(amid_an_epoch: Path) -> None:
    callback = EnergyAlignCallback()
    fit(Module(), [callback], max_epochs=2, resume=amid_an_epoch)
    np.testing.assert_array_equal(callback.shifts_.counts, COUNTS)


def test_a_training_of_less_than_an_epoch_was_on_what_was_counted() -> None:
    callback = EnergyAlignCallback(estimator="prior")
    fit(Module(), [callback], max_steps=10)
    assert callback.shifts_.counts is not None
    assert callback.shifts_.counts.sum() == 320


def test_accumulating_gradients_changes_nothing() -> None:
    callback = EnergyAlignCallback()
    fit(Module(), [callback], accumulate_grad_batches=4)
    np.testing.assert_array_equal(callback.shifts_.counts, COUNTS)


class SeveralSets(Module):
    def validation_step(self, batch: Any, _: int, dataloader_idx: int = 0) -> None:
        pass


@pytest.mark.parametrize("kind", [list, dict])
def test_of_several_validation_loaders_the_first_serves(kind: type) -> None:
    callback = EnergyAlignCallback()
    loaders = kind(a=BALANCED, b=DataLoader(data([5] * 4, 2), 20)) if kind is dict else [BALANCED, BALANCED]
    fit(SeveralSets(), [callback], val=loaders)
    assert callback.shifts_.n_samples == 240


class Endless:
    def __iter__(self) -> Any:
        return itertools.cycle(BALANCED)


def test_the_limit_of_the_trainer_holds_for_the_evidence() -> None:
    callback = EnergyAlignCallback(estimator="prior")
    fit(Module(), [callback], val=Endless(), limit_val_batches=3)
    assert callback.shifts_.n_samples == 3 * 64


@pytest.mark.parametrize("missing", [["lightning"], ["lightning", "pytorch_lightning"]])
def test_either_name_of_lightning_will_do(monkeypatch: pytest.MonkeyPatch, missing: list[str]) -> None:
    path = sys.modules[EnergyAlignCallback.__module__].__file__
    assert path is not None
    older = types.ModuleType("pytorch_lightning")
    older.Callback, older.LightningModule, older.Trainer = L.Callback, L.LightningModule, L.Trainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pytorch_lightning", older)
    for name in [*missing, "lightning.pytorch"]:
        monkeypatch.setitem(sys.modules, name, None)
    if "pytorch_lightning" in missing:
        with pytest.raises(ImportError, match="pip install lightning"):
            runpy.run_path(path)
    else:
        assert issubclass(runpy.run_path(path)["EnergyAlignCallback"], L.Callback)
