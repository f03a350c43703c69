"""The callback for the Hugging Face Trainer in a real training of a tiny classifier."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

transformers = pytest.importorskip("transformers")

from energyalign import EnergyAlignError  # noqa: E402
from energyalign.pytorch import AlignedModel, align  # noqa: E402
from energyalign.pytorch.hugging_face import EnergyAlignCallback, _labels_of  # noqa: E402

COUNTS = [300, 90, 30, 10]


class Sentences(Dataset[Any]):
    """Sentences of six random words, and four from a range that overlaps neighbouring classes."""

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


def a_trainer(network: Any, folder: Path, callbacks: list[Any], *, evaluate_on: Any = None, **options: Any) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=16, per_device_eval_batch_size=64,
        report_to=[], disable_tqdm=True, use_cpu=True, seed=0, dataloader_pin_memory=False,
        **{"learning_rate": 1e-2, "num_train_epochs": 8, "eval_strategy": "epoch", "save_strategy": "no", **options},
    )  # fmt: skip
    return transformers.Trainer(
        network, arguments, train_dataset=Sentences(COUNTS, 0), eval_dataset=evaluate_on or Sentences([60] * 4, 1),
        callbacks=callbacks,
    )  # fmt: skip


def train(network: Any, folder: Path, callbacks: list[Any], **options: Any) -> Any:
    trainer = a_trainer(network, folder, callbacks, **options)
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
    trainer = train(network, tmp_path, [EnergyAlignCallback(estimator="prior")], num_train_epochs=1)
    trainer.save_model(tmp_path / "aligned")
    loaded = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "aligned")
    fresh = Sentences([5] * 4, 2)
    torch.testing.assert_close(logits(loaded, fresh), logits(network, fresh), rtol=0, atol=0)


def test_without_evaluation_the_training_data_serve(tmp_path: Path) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="monotone")
    train(model(), tmp_path, [callback], num_train_epochs=1, eval_strategy="no")
    assert callback.shifts_.evidence_kind == "training"
    assert callback.shifts_.n_samples == sum(COUNTS)


def test_training_is_not_lost_when_aligning_fails(tmp_path: Path) -> None:
    network, plain = model(), model()
    train(plain, tmp_path, [], num_train_epochs=1)
    with pytest.warns(UserWarning, match="NOT aligned and is unchanged"):
        train(network, tmp_path, [EnergyAlignCallback(counts=[1, 2, 3])], num_train_epochs=1)
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), plain.state_dict().values(), strict=True)
    )


def test_the_best_model_is_the_one_that_is_aligned(tmp_path: Path) -> None:
    """The loss on small classes rises from some epoch on, so that the best model is not the last one."""
    network = model()
    trainer = train(
        network, tmp_path, [EnergyAlignCallback(estimator="prior")], num_train_epochs=6, learning_rate=3e-2,
        save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="loss",
    )  # fmt: skip
    best = trainer.state.best_model_checkpoint
    assert not best.endswith(str(trainer.state.global_step))
    saved = transformers.BertForSequenceClassification.from_pretrained(best)
    fresh = Sentences([5] * 4, 2)
    shifts = torch.tensor(network.shifts_.values, dtype=torch.float32)
    torch.testing.assert_close(logits(network, fresh), logits(saved, fresh) + shifts, rtol=0, atol=1e-5)


def test_only_what_is_evaluated_during_training_is_evidence(tmp_path: Path) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="monotone")
    trainer = a_trainer(model(), tmp_path, [callback], num_train_epochs=1, eval_strategy="no")
    trainer.evaluate(Sentences([3] * 4, 3))  # the test set, say
    trainer.predict(Sentences([3] * 4, 3))
    trainer.train()
    assert callback.shifts_.evidence_kind == "training"


def test_of_several_evaluation_sets_the_last_one_serves(tmp_path: Path) -> None:
    callback = EnergyAlignCallback(estimator="prior")
    sets = {"first": Sentences([20] * 4, 1), "second": Sentences([30] * 4, 2)}
    train(model(), tmp_path, [callback], num_train_epochs=1, evaluate_on=sets)
    assert callback.shifts_.n_samples == 120


def test_training_on_aligns_anew(tmp_path: Path) -> None:
    network, callback = model(), EnergyAlignCallback(estimator="prior")
    trainer = a_trainer(network, tmp_path, [callback], num_train_epochs=1)
    trainer.train()
    first = callback.shifts_
    assert network.shifts_ is first
    with pytest.raises(EnergyAlignError, match="already aligned"):
        align(network, DataLoader(Sentences([5] * 4, 2), 20))
    trainer.train()
    assert network.shifts_ is callback.shifts_ is not first


def test_two_callbacks_do_not_correct_one_model_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="NOT aligned .* another EnergyAlignCallback in the list"):
        train(model(), tmp_path, [EnergyAlignCallback(estimator="prior") for _ in range(2)], num_train_epochs=1)


class FunctionalHead(torch.nn.Module):
    """No module computes the logits, so nothing can be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(40, 16)
        self.weight = torch.nn.Parameter(torch.randn(4, 16))

    def forward(self, input_ids: torch.Tensor, labels: Any = None, **_: Any) -> dict[str, Any]:
        found = self.words(input_ids).mean(1) @ self.weight.T
        return {"logits": found} | (
            {} if labels is None else {"loss": torch.nn.functional.cross_entropy(found, labels)}
        )


def test_a_model_that_is_not_corrected_itself_is_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, callback = FunctionalHead(), EnergyAlignCallback(estimator="prior")
    with pytest.warns(UserWarning, match="not folded"):
        trainer = train(network, tmp_path, [callback], num_train_epochs=1)
    assert "the trainer's own model is unchanged; use callback.aligned_" in capsys.readouterr().out
    assert isinstance(callback.aligned_, AlignedModel)
    assert not hasattr(network, "shifts_")
    logged = trainer.state.log_history[-1]
    assert (logged["energyalign_folded"], logged["epoch"], logged["step"]) == (0.0, 1.0, trainer.state.global_step)


@pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
def test_bfloat16_is_folded(tmp_path: Path) -> None:
    network, callback = model(), EnergyAlignCallback()
    train(network, tmp_path, [callback], num_train_epochs=2, bf16=True)
    assert callback.aligned_ is network


def test_labels_that_are_kept_nowhere_are_unknown_and_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = EnergyAlignCallback(estimator="marginal", clusters="per-class")
    trainer = a_trainer(model(), tmp_path, [callback], num_train_epochs=1)
    items = Sentences(COUNTS, 0)
    trainer.train_dataset = [items[i] for i in range(len(items))]
    trainer.train()
    assert "the training counts are unknown: give counts=..." in capsys.readouterr().out


def test_a_missing_transformers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    path = sys.modules[EnergyAlignCallback.__module__].__file__
    assert path is not None
    with pytest.raises(ImportError, match="pip install transformers accelerate"):
        runpy.run_path(path)


class Columns:
    """A dataset like `datasets.Dataset`, which returns whole columns, with a transform."""

    column_names = ("text", "label")
    transformed = True

    def __len__(self) -> int:
        return 3

    def with_format(self, _: None) -> Columns:
        plain = Columns()
        plain.transformed = False
        return plain

    def __getitem__(self, name: str) -> list[int]:
        assert name == "label"
        assert not self.transformed
        return [0, 1, 1]


class Stream(IterableDataset[Any]):
    """Has column names but no columns, like a `datasets.IterableDataset`."""

    column_names = ("text", "label")

    def __iter__(self) -> Any:
        raise AssertionError("the stream was read only for its labels")


class NeverRead(Dataset[Any]):
    """Reading its items is expensive, and fails here."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("an item was read only for its label")


def with_labels(name: str, labels: Any) -> Dataset[Any]:
    dataset = NeverRead()
    setattr(dataset, name, labels)
    return dataset


def test_labels_are_found_in_columns_and_attributes() -> None:
    assert _labels_of(Columns()) == [0, 1, 1]
    assert _labels_of(with_labels("targets", [2, 0, 1])) == [2, 0, 1]
    assert _labels_of(with_labels("labels", [2, 0, 1])) == [2, 0, 1]
    assert _labels_of(Subset(with_labels("targets", [2, 0, 1]), [2, 0])) == [1, 2]


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(NeverRead(), id="items only"),
        pytest.param(Stream(), id="stream"),
        pytest.param(with_labels("labels", ["cat", "dog"]), id="names of the classes"),
        pytest.param(Subset(NeverRead(), [0]), id="subset"),
        pytest.param([{"label": 3}, {"label": 1}], id="list"),
        pytest.param(TensorDataset(torch.zeros(3, 2), torch.arange(3)), id="tensors"),
        pytest.param(iter([]), id="iterator"),
        pytest.param(None, id="none"),
    ],
)
def test_no_dataset_is_read_through_for_its_labels(dataset: Any) -> None:
    assert _labels_of(dataset) is None
