"""Unusable files: one clear error each, and existing results stay unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx.helper import make_node

from energyalign.core.errors import EnergyAlignError


def changed(change: Callable[[onnx.ModelProto], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        model = onnx.load(path)
        change(model)
        path.write_bytes(model.SerializeToString())

    return spoil


def half_precision_of_another_kind(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        kind = onnx.TensorProto.BFLOAT16
        tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, kind, values.shape, values.ravel()))
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16


def become_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "cannot read .*: No such file"),
    "directory": (become_directory, "is a directory"),
    "empty": (lambda path: path.write_bytes(b""), r"is empty \(0 bytes\)"),
    "text": (lambda path: path.write_text("hello, world"), "is damaged or not an ONNX model"),
    "cut off": (lambda path: os.truncate(path, path.stat().st_size - 7), "is damaged or not an ONNX model"),
    "cut off early": (lambda path: os.truncate(path, 9), "is damaged or not an ONNX model"),
    "cut off between fields": (changed(lambda model: model.ClearField("graph")), "it has no graph"),
    "IR of the future": (
        changed(lambda model: setattr(model, "ir_version", 99)),
        r"onnxruntime cannot load .*\(Unsupported model IR version: 99.*opset that onnxruntime supports",
    ),
    "opset of the future": (
        changed(lambda model: setattr(model.opset_import[0], "version", 999)), "onnxruntime cannot load .*999"
    ),
    "unknown operator": (
        changed(lambda model: setattr(model.graph.node[0], "op_type", "Frobnicate")), "cannot load .*Frobnicate"
    ),
    "bfloat16, which onnxruntime does not run here": (
        changed(half_precision_of_another_kind), "onnxruntime cannot load"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_one_clear_error_and_the_old_result_intact(workshop: Any, case: str, capfd: Any) -> None:
    spoil, named = BAD[case]
    workshop.save([make_node("Gemm", ["x", "W", "b"], ["y"])], {"W": workshop.normal(5, 4), "b": workshop.normal(4)})
    spoil(workshop.source)
    workshop.out.write_bytes(b"old")
    files = sorted(path.name for path in workshop.folder.iterdir())
    with pytest.raises(EnergyAlignError, match=named) as raised:
        workshop.align()
    assert "model.onnx" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert workshop.out.read_bytes() == b"old"
    assert sorted(path.name for path in workshop.folder.iterdir()) == files
    assert capfd.readouterr() == ("", "")  # onnxruntime's own log included


def test_wherever_a_file_is_cut_off(workshop: Any) -> None:
    workshop.save([make_node("Gemm", ["x", "W"], ["y"])], {"W": workshop.normal(5, 4)})
    whole = workshop.source.read_bytes()
    for length in range(0, len(whole) - 1, 37):
        workshop.source.write_bytes(whole[:length])
        with pytest.raises(EnergyAlignError, match=r"model\.onnx"):
            workshop.align()
    assert not workshop.out.exists()


@pytest.mark.parametrize(("out", "named"), [(".", "is a directory"), ("nowhere/a.onnx", "there is no folder")])
def test_results_that_cannot_be_written(workshop: Any, out: str, named: str) -> None:
    workshop.save([make_node("Gemm", ["x", "W"], ["y"])], {"W": workshop.normal(5, 4)})
    workshop.out = workshop.folder / out
    with pytest.raises(EnergyAlignError, match=named):
        workshop.align()


@pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
def test_a_library_that_is_not_installed(library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import energyalign.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"EnergyAlignError: ONNX files need onnx and onnxruntime (import of {library} halted" in done.stderr
    assert "pip install 'energyalign[onnx]'" in done.stderr
