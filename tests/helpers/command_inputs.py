"""Small input files for commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from made_up_run import made_up_run
from onnx import helper, numpy_helper

from energyalign import Evidence, fit_shifts

COUNTS = [40, 30, 20, 10]


def save_inputs(folder: Path) -> None:
    """Save logits.npy, labels.npy, counts.json, shifts.json, model.onnx with its data in weights.bin, and runs/."""
    labels = np.arange(400) % 4
    logits = np.random.default_rng(0).normal(size=(400, 4)) + 2 * np.eye(4)[labels] + np.log(COUNTS)
    np.save(folder / "logits.npy", logits.astype(np.float32))
    np.save(folder / "labels.npy", labels)
    (folder / "counts.json").write_text(json.dumps(COUNTS))
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
    fit_shifts(evidence, estimator="prior").save(folder / "shifts.json")
    save_model(folder / "model.onnx", n_classes=4, data="weights.bin")
    made_up_run(folder / "runs" / "seed-0", ["a", "b", "c"])


def save_model(path: Path, *, n_classes: int, data: str | None = None) -> None:
    """Save the product of five features `x` and a matrix; the matrix is in an external file if `data` names one."""
    weight = numpy_helper.from_array(np.ones((n_classes, 5), np.float32), "weight")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "weight"], ["logits"], transB=1)], "model",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 5])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", n_classes])], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=data is not None, location=data, size_threshold=0)
