"""Readers of ONNX models, their external data and probes for fuzzing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fuzz_reader import Reader
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from energyalign.core.clusters import Clusters
from energyalign.core.shifts import Shifts
from energyalign.onnx.align import align_onnx
from energyalign.onnx.probes import read_probe

_SHIFTS = Shifts(np.array([0.0, 1.0, -1.0]), np.zeros(3), Clusters.per_class(3), np.full(3, 1 / 3), "prior")
_WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def _model(*, external: bool) -> bytes:
    weight, bias = numpy_helper.from_array(_WEIGHT, "W"), numpy_helper.from_array(_WEIGHT[0], "b")
    if external:
        set_external_data(weight, "weights.bin", 0, _WEIGHT.nbytes)
        weight.ClearField("raw_data")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "W", "b"], ["y"]), helper.make_node("Softmax", ["y"], ["p"], axis=1)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 3])],
        [weight, bias],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _aligned(folder: Path) -> None:
    align_onnx(folder / "model.onnx", _SHIFTS, folder / "out.onnx")


def _probe() -> Reader:
    streams = [io.BytesIO(), io.BytesIO()]
    np.savez(streams[0], x=_WEIGHT, mask=np.ones((2, 3), np.int64))
    np.savez_compressed(streams[1], x=_WEIGHT)
    samples = [{"probe.npz": stream.getvalue()} for stream in streams]
    return Reader(lambda folder: read_probe(folder / "probe.npz"), samples, named="probe.npz")


READERS: dict[str, Callable[[], Reader]] = {
    "ONNX model": lambda: Reader(_aligned, [{"model.onnx": _model(external=False)}], named="model.onnx"),
    "ONNX external data": lambda: Reader(
        _aligned, [{"model.onnx": _model(external=True), "weights.bin": _WEIGHT.tobytes()}], named="model.onnx"
    ),
    "ONNX probe": _probe,
}
