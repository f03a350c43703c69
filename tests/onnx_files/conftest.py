"""Small ONNX models made node by node, and an independent check of aligned files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import settings
from onnx import helper

from energyalign import Clusters, Shifts
from energyalign.onnx import AlignedOnnx, align_onnx

settings.register_profile("energyalign-onnx", derandomize=True, deadline=None, database=None, max_examples=15)
settings.load_profile("energyalign-onnx")

Feeds = dict[str, np.ndarray]


def shifts_of(values: Sequence[float]) -> Shifts:
    n_classes = len(values)
    return Shifts(
        values=np.asarray(values, dtype=float),
        standard_errors=np.zeros(n_classes),
        clusters=Clusters.per_class(n_classes),
        target_prior=np.full(n_classes, 1 / n_classes),
        estimator="lse",
    )


def run_file(path: Path, feeds: Feeds) -> Feeds:
    """Run a model file as in deployment; return all outputs by name."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


class Workshop:
    """Makes models in a folder, aligns them, and compares the files."""

    shifts = shifts_of([0.75, -1.5, 2.0, 0.0])
    features = 5

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "model.onnx"
        self.out = folder / "aligned.onnx"
        self.rng = np.random.default_rng(7)

    def normal(self, *shape: int, dtype: str = "float32") -> np.ndarray:
        return np.asarray(self.rng.normal(size=shape)).astype(dtype)

    def save(
        self,
        nodes: Sequence[onnx.NodeProto],
        constants: Feeds,
        *,
        inputs: dict[str, Sequence[Any]] | None = None,
        outputs: dict[str, Sequence[Any]] | None = None,
        types: dict[str, str] | None = None,
        opset: int = 17,
        ir_version: int = 8,
        listed: Sequence[str] = (),
        functions: Sequence[onnx.FunctionProto] = (),
    ) -> Path:
        """Save a graph from `inputs` (x: n x 5) to `outputs` (y: n x 4), float32 unless `types` says otherwise."""
        types = types or {}

        def declared(name: str, shape: Sequence[Any] | None) -> onnx.ValueInfoProto:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(types.get(name, "float32")))
            return helper.make_tensor_value_info(name, kind, shape)

        graph = helper.make_graph(
            list(nodes),
            "main",
            [declared(*one) for one in (inputs or {"x": ["n", self.features]}).items()]
            + [declared(name, constants[name].shape) for name in listed],
            [declared(*one) for one in (outputs or {"y": ["n", 4]}).items()],
            [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
            doc_string="the graph",
        )
        model = helper.make_model(
            graph,
            functions=functions,
            opset_imports=[
                helper.make_opsetid("", opset),
                helper.make_opsetid("ai.onnx.ml", 3),
                *(helper.make_opsetid(function.domain, 1) for function in functions),
            ],
            ir_version=ir_version,
            producer_name="workshop",
            doc_string="the model",
        )
        helper.set_model_props(model, {"author": "someone", "labels": "a,b,c,d"})
        onnx.checker.check_model(model)
        onnx.save(model, self.source)
        return self.source

    def align(self, **options: Any) -> AlignedOnnx:
        return align_onnx(self.source, self.shifts, self.out, **options)

    def run_both(self, feeds: Feeds | None = None) -> tuple[Feeds, Feeds]:
        feeds = {"x": self.normal(6, self.features)} if feeds is None else feeds
        return run_file(self.source, feeds), run_file(self.out, feeds)

    def assert_shifted(self, output: str = "y", feeds: Feeds | None = None, tolerance: float = 1e-5) -> None:
        """Check that the new file's output is the old one's plus shifts; trailing axes of length 1 do not matter."""
        onnx.checker.check_model(str(self.out), full_check=True)
        before, after = self.run_both(feeds)
        raw, found = before[output], after[output]
        assert found.dtype == raw.dtype
        assert found.shape == raw.shape
        wanted = raw.astype(float) + self.shifts.values.reshape((-1,) + (1,) * (raw.ndim - 2))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))

    def models(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        return onnx.load(self.source), onnx.load(self.out)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def make_shifts() -> Callable[[Sequence[float]], Shifts]:
    return shifts_of


@pytest.fixture
def run_model() -> Callable[[Path, Feeds], Feeds]:
    return run_file
