"""Exports by torch.onnx.export, aligned, compared with the raw file plus shifts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


def export(network: Any, path: Path, inputs: tuple[Any, ...], **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the exporter are not ours
        torch.onnx.export(network.eval(), inputs, path, dynamo=True, verbose=False, **options)


def assert_aligned(shop: Any, output: str, feeds: dict[str, np.ndarray]) -> None:
    before, after = shop.run_both(feeds)
    raw, found = before[output], after[output]
    np.testing.assert_allclose(found, raw + shop.shifts.values, rtol=0, atol=1e-5 * max(1.0, np.abs(found).max()))
    np.testing.assert_array_equal(found.argmax(1), shop.shifts.predict(raw))
    exponentials = np.exp(found - found.max(axis=1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, shop.shifts.predict_proba(raw), atol=1e-5)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_linear(workshop: Any, bias: bool) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4, bias=bias))
    batch = {0: torch.export.Dim("batch")}
    export(network, workshop.source, (torch.randn(2, 5),), input_names=["x"], output_names=["y"],
           dynamic_shapes=(batch,))  # fmt: skip
    done = workshop.align()
    assert done.how == "folded" or not bias  # without a bias it depends on the exporter: a Gemm or a MatMul
    assert_aligned(workshop, "y", {"x": workshop.normal(50, 5)})


def test_resnet(workshop: Any, make_shifts: Any, tmp_path: Path) -> None:
    """Forty megabytes of weights in an external file."""
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    workshop.shifts = make_shifts(np.linspace(-2, 2, 7))
    export(models.resnet18(num_classes=7), workshop.source, (torch.randn(1, 3, 32, 32),), input_names=["x"],
           output_names=["y"])  # fmt: skip
    assert (tmp_path / "model.onnx.data").exists()
    done = workshop.align()
    assert (done.how, done.constant) == ("folded", "fc.bias")
    assert_aligned(workshop, "y", {"x": workshop.normal(1, 3, 32, 32)})
    before, after = workshop.models()
    names = [one.name for one in before.graph.initializer]
    assert [one.name for one in after.graph.initializer] == names
    changed = [a.name for a, b in zip(before.graph.initializer, after.graph.initializer, strict=True)
               if onnx.numpy_helper.to_array(a).tobytes() != onnx.numpy_helper.to_array(b).tobytes()]  # fmt: skip
    assert changed == ["fc.bias"]


def test_bert(workshop: Any) -> None:
    """Token ids and a mask, with dynamic batch size and length."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=16, num_labels=4, attn_implementation="eager")
    bert = transformers.BertForSequenceClassification(config)

    class Tokens(torch.nn.Module):
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return bert(input_ids=input_ids, attention_mask=attention_mask).logits

    network = Tokens()
    network.bert = bert
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", min=2, max=64)}
    ids = torch.randint(0, 30, (2, 9))
    export(network, workshop.source, (ids, torch.ones_like(ids)), input_names=["input_ids", "attention_mask"],
           output_names=["logits"], dynamic_shapes=(free, free))  # fmt: skip
    assert workshop.align().how == "folded"
    tokens = workshop.rng.integers(0, 30, size=(6, 12))
    mask = (np.arange(12) < workshop.rng.integers(3, 13, size=(6, 1))).astype("int64")
    assert_aligned(workshop, "logits", {"input_ids": tokens, "attention_mask": mask})
