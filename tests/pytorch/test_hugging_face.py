"""The callback of the Hugging Face Trainer on a real training of a tiny classifier built from a config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

transformers = pytest.importorskip("transformers")

from energyalign.pytorch.hugging_face import EnergyAlignCallback, _labels_of  # noqa: E402

COUNTS = [300, 90, 30, 10]


class Sentences(Dataset[Any]):
    """Six words of any kind, and four from a range that overlaps those of the neighbouring classes."""

    def __init__(self, counts: list[int], seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.labels = np.repeat(np.arange(4), counts)
        noise = generator.integers(4, 40, (len(self.labels), 6))
        signal = 4 + 9 * self.labels[:, None] + generator.integers(0, 14, (len(self.labels), 4))
        self.words = torch.from_numpy(np.concatenate([noise, np.minimum(signal, 39)], axis=1))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "input_ids": self.words[index], "attention_mask": torch.ones(10, dtype=torch.long),
            "labels": int(self.labels[index]),
        }  # fmt: skip


def model() -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=4,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def train(network: Any, folder: Path, callbacks: list[Any], **options: Any) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=8, per_device_train_batch_size=16, per_device_eval_batch_size=64,
        learning_rate=1e-2, report_to=[], disable_tqdm=True, use_cpu=True, seed=0,
        dataloader_pin_memory=False, **{"eval_strategy": "epoch", "save_strategy": "no", **options},
    )  # fmt: skip
    trainer = transformers.Trainer(
        network, arguments, train_dataset=Sentences(COUNTS, 0), eval_dataset=Sentences([60] * 4, 1), callbacks=callbacks
    )
    trainer.train()
    return trainer


def logits(network: Any, dataset: Sentences) -> torch.Tensor:
    with torch.no_grad():
        return network.eval()(dataset.words).logits


def test_the_model_comes_out_aligned_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, aligned, callback = model(), model(), EnergyAlignCallback()
    train(plain, tmp_path, [])
    trainer = train(aligned, tmp_path, [callback])
    fresh = Sentences([100] * 4, 2)
    raw, corrected = logits(plain, fresh), logits(aligned, fresh)
    torch.testing.assert_close(
        corrected, raw + torch.tensor(callback.shifts_.values, dtype=torch.float32), rtol=0, atol=1e-5
    )
    truth = torch.from_numpy(fresh.labels)
    assert (corrected.argmax(1) == truth).double().mean() > (raw.argmax(1) == truth).double().mean() + 0.03
    np.testing.assert_array_equal(callback.shifts_.counts, COUNTS)
    assert callback.shifts_.evidence_kind == "held-out"
    assert (
        trainer.state.log_history[-1]["energyalign_balanced_accuracy_after"]
        == callback.metrics_["balanced_accuracy_after"]
    )
    assert callback.metrics_["balanced_accuracy_after"] > callback.metrics_["balanced_accuracy_before"]
    assert "balanced accuracy" in capsys.readouterr().out


def test_saved_and_loaded_it_stays_aligned(tmp_path: Path) -> None:
    network = model()
    trainer = train(network, tmp_path, [EnergyAlignCallback(estimator="prior")])
    trainer.save_model(tmp_path / "aligned")
    loaded = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "aligned")
    fresh = Sentences([5] * 4, 2)
    torch.testing.assert_close(logits(loaded, fresh), logits(network, fresh), rtol=0, atol=0)


def test_without_evaluation_the_training_data_serve(tmp_path: Path) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="monotone")
    train(model(), tmp_path, [callback], eval_strategy="no")
    assert callback.shifts_.evidence_kind == "training"
    assert callback.shifts_.n_samples == sum(COUNTS)


def test_training_is_not_lost_when_aligning_fails(tmp_path: Path) -> None:
    network, plain = model(), model()
    train(plain, tmp_path, [])
    with pytest.warns(UserWarning, match="NOT aligned and is as training left it"):
        train(network, tmp_path, [EnergyAlignCallback(counts=[1, 2, 3])])
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), plain.state_dict().values(), strict=True)
    )


class Columns:
    """As a `datasets.Dataset`, of which whole columns can be asked for."""

    column_names = ("text", "label")

    def __getitem__(self, name: str) -> list[int]:
        assert name == "label"
        return [0, 1, 1]


def test_labels_are_found_in_columns_items_and_pairs() -> None:
    assert _labels_of(Columns()) == [0, 1, 1]
    assert _labels_of([{"label": 3}, {"labels": 1}]) == [3, 1]
    assert _labels_of([("text", 2)]) == [2]
    assert _labels_of([{"text": "no label"}]) == [-1]  # which the counter takes for unknown
    assert _labels_of(iter([])) is None
