"""For all shapes, attributes and numbers of a Gemm: raw + shifts, in the same graph."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from energyalign import Clusters, Shifts
from energyalign.onnx import align_onnx


@given(
    n_features=st.integers(1, 7),
    values=st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=9),
    bias=st.sampled_from(["none", "row", "matrix", "number"]),
    beta=st.sampled_from([1.0, 0.5, -3.0]),
    transposed=st.booleans(),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
    batch=st.sampled_from(["n", 1, 2]),
    seed=st.integers(0, 999),
)
def test_any_gemm(
    n_features: int, values: list[float], bias: str, beta: float, transposed: bool, scale: float,
    batch: str | int, seed: int,
) -> None:  # fmt: skip
    n = len(values)
    rng = np.random.default_rng(seed)
    shape = {"none": None, "row": (n,), "matrix": (1, n), "number": ()}[bias]
    constants = {"W": scale * rng.normal(size=(n, n_features) if transposed else (n_features, n))}
    if shape is not None:
        constants["b"] = scale * np.asarray(rng.normal(size=shape))
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Gemm", ["x", *constants], ["y"], beta=beta, transB=int(transposed))],
            "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, n_features])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, n])],
            [onnx.numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    shifts = Shifts(np.array(values), np.zeros(n), Clusters.per_class(n), np.full(n, 1 / n), "lse")
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "m.onnx"), Path(folder, "a.onnx")
        onnx.save(model, source)
        done = align_onnx(source, shifts, out)
        assert done.how == "folded"
        x = rng.normal(size=(2 if batch == "n" else batch, n_features)).astype("float32")
        raw, found = (onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0] for path in (source, out))
    wanted = raw + shifts.values
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * max(1.0, np.abs(raw).max(), np.abs(wanted).max()))
