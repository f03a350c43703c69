"""The callbacks in trainings of other heads: one logit, tokens, pixels, independent labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from energyalign.core.multilabel import MultilabelShifts

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec.*:FutureWarning"),  # Lightning's own, with a newer torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning"),
]
L = pytest.importorskip("lightning.pytorch")


def independent_labels(seed: int) -> DataLoader:
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(320, 2, generator=generator) < torch.tensor([0.05, 0.4])).float()
    inputs = torch.randn(320, 4, generator=generator) + 1.5 * F.pad(labels, (0, 2))
    return DataLoader(TensorDataset(inputs, labels), 64)


def pixels(seed: int) -> DataLoader:
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(40, 6, 6, generator=generator) < 0.1).long()
    inputs = torch.randn(40, 1, 6, 6, generator=generator) + 1.5 * labels[:, None]
    labels[:, 0] = 255
    return DataLoader(TensorDataset(inputs, labels), 8)


class Module(L.LightningModule):  # type: ignore[misc]
    def __init__(self, net: nn.Module, loss: Any) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return self.loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("loss", self.loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.1)


def fit(module: Any, train: DataLoader, val: DataLoader, **options: Any) -> Any:
    from energyalign.pytorch.lightning import EnergyAlignCallback

    callback = EnergyAlignCallback(**options)
    trainer = L.Trainer(
        callbacks=[callback], accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, logger=False,
        enable_checkpointing=False, max_epochs=15,
    )  # fmt: skip
    trainer.fit(module, train, val)
    return callback


def test_lightning_with_independent_labels(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    train = independent_labels(0)
    module = Module(nn.Linear(4, 2), F.binary_cross_entropy_with_logits)
    callback = fit(module, train, independent_labels(1), multilabel=True, estimator="shrunk")
    shifts = callback.shifts_
    assert isinstance(shifts, MultilabelShifts)
    labels = train.dataset.tensors[1].numpy()
    for k in range(2):
        assert shifts.labels[k].counts.tolist() == [np.sum(labels[:, k] == 0), np.sum(labels[:, k] == 1)]
    assert callback.aligned_ is module
    assert callback.metrics_["balanced_accuracy_after"] > callback.metrics_["balanced_accuracy_before"] + 0.03
    assert "2 labels on 320 held-out samples" in capsys.readouterr().out


def test_lightning_with_pixels() -> None:
    torch.manual_seed(0)
    train = pixels(0)
    module = Module(nn.Conv2d(1, 2, 1), nn.CrossEntropyLoss(ignore_index=255))
    callback = fit(module, train, pixels(1), ignore_index=255, estimator="shrunk")
    labels = train.dataset.tensors[1].numpy()
    assert callback.shifts_.counts.tolist() == [np.sum(labels == 0), np.sum(labels == 1)]
    assert callback.shifts_.n_samples == 40 * 30
    assert callback.metrics_["balanced_accuracy_after"] > callback.metrics_["balanced_accuracy_before"] + 0.1
    assert hasattr(module, "shifts_")


class Words(torch.utils.data.Dataset[Any]):
    def __init__(self, seed: int, *, tokens: bool) -> None:
        rng = np.random.default_rng(seed)
        words = rng.integers(0, 20, size=(160, 6))
        words[rng.random((160, 6)) < 0.05] = 25
        marked = (words == 25) ^ (rng.random((160, 6)) < 0.02)
        self.words = torch.from_numpy(words)
        self.labels = np.where(np.arange(6) == 0, -100, marked) if tokens else marked.any(axis=1).astype(np.float32)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.words[index], "labels": torch.as_tensor(self.labels[index])}


@pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "one logit"])
def test_hugging_face(tokens: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from energyalign.pytorch.hugging_face import EnergyAlignCallback

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        num_labels=2 if tokens else 1, max_position_embeddings=16,
        problem_type=None if tokens else "multi_label_classification",
    )  # fmt: skip
    kind = transformers.BertForTokenClassification if tokens else transformers.BertForSequenceClassification
    network, train, val = kind(config), Words(0, tokens=tokens), Words(1, tokens=tokens)
    if not tokens:
        train.labels, val.labels = train.labels[:, None], val.labels[:, None]  # as this loss takes them
    raw = network.classifier.bias.detach().clone()
    callback = EnergyAlignCallback(estimator="shrunk")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, learning_rate=0.0, per_device_train_batch_size=32, report_to=[],
        disable_tqdm=True, use_cpu=True, seed=0, eval_strategy="epoch", save_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    transformers.Trainer(network, arguments, train_dataset=train, eval_dataset=val, callbacks=[callback]).train()
    known = train.labels[train.labels != -100]
    assert callback.shifts_.counts.tolist() == [np.sum(known == 0), np.sum(known == 1)]
    added = (network.classifier.bias.detach() - raw).numpy()
    values = callback.shifts_.values
    np.testing.assert_allclose(added, values if tokens else [values[1] - values[0]], atol=1e-6)
