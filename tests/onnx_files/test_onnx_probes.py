"""Inputs for verifying an edit."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node

from energyalign.onnx import read_probe


def wide(shop: Any) -> None:
    """Make a model for rows of 50 numbers whose signature does not say so."""
    shop.save([make_node("MatMul", ["x", "W"], ["y"])], {"W": shop.normal(50, 4)}, inputs={"x": ["n", "width"]})


def test_free_axes_are_tried_until_the_model_runs(workshop: Any) -> None:
    workshop.save(
        [make_node("MatMul", ["x", "W"], ["y"])], {"W": workshop.normal(64, 4)}, inputs={"x": ["n", "features"]}
    )
    assert workshop.align().n_probes == 3
    workshop.assert_shifted(feeds={"x": workshop.normal(2, 64)})


def test_dimensions_of_one_name_have_one_size(workshop: Any) -> None:
    nodes = [make_node("Mul", ["x", "scale"], ["s"]), make_node("MatMul", ["s", "W"], ["y"])]
    workshop.save(nodes, {"W": workshop.normal(32, 4)}, inputs={"x": ["n", "width"], "scale": ["width"]})
    with pytest.raises(ValueError, match="--probe"):
        workshop.align()  # the first axis, and others of its name, get the batch sizes 3 and then 1
    nodes[0].input[1] = "wide"
    workshop.save(nodes, {"W": workshop.normal(32, 4)}, inputs={"x": ["n", "width"], "wide": [1, "width"]})
    workshop.align()
    workshop.assert_shifted(feeds={"x": workshop.normal(2, 32), "wide": workshop.normal(1, 32)})


def test_a_batch_of_one_that_is_baked_in(workshop: Any, capfd: Any) -> None:
    nodes = [make_node("Reshape", ["x", "to"], ["r"]), make_node("MatMul", ["r", "W"], ["y"])]
    workshop.save(nodes, {"to": np.array([1, 5]), "W": workshop.normal(5, 4)})
    workshop.align()
    assert capfd.readouterr() == ("", "")  # onnxruntime logs failures unless this is disabled
    workshop.assert_shifted(feeds={"x": workshop.normal(1, 5)})


def test_warnings_of_onnxruntime_are_not_printed(workshop: Any, capfd: Any) -> None:
    """It warns about constants that nothing reads."""
    constants = {"W": workshop.normal(5, 4), "unused": workshop.normal(3)}
    workshop.save([make_node("MatMul", ["x", "W"], ["y"])], constants)
    workshop.align()
    assert capfd.readouterr() == ("", "")
    workshop.run_both()
    assert "unused" in capfd.readouterr().err


def test_no_free_axis_gets_as_many_entries_as_there_are_classes(workshop: Any, make_shifts: Any) -> None:
    """Sixteen classes could not be distinguished from sixteen tokens."""
    workshop.shifts = make_shifts(np.linspace(-1, 1, 16))
    shapes = {"inputs": {"x": ["n", "tokens", 5]}, "outputs": {"y": ["n", "tokens", 16]}}
    workshop.save([make_node("MatMul", ["x", "W"], ["y"])], {"W": workshop.normal(5, 16)}, **shapes)
    workshop.align()
    before, after = workshop.run_both({"x": workshop.normal(2, 3, 5)})
    np.testing.assert_allclose(after["y"], before["y"] + workshop.shifts.values, atol=1e-5)


def test_a_mask_is_drawn_as_ones(workshop: Any) -> None:
    """With other masks the division by the smallest entry would give NaN."""
    nodes = [
        make_node("Gather", ["table", "ids"], ["e"]),
        make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
        make_node("ReduceMin", ["m"], ["least"], keepdims=0),
        make_node("Div", ["e", "least"], ["d"]),
        make_node("ReduceMean", ["d"], ["h"], axes=[1], keepdims=0),
        make_node("Gemm", ["h", "W"], ["y"]),
    ]
    constants = {"table": workshop.normal(2, 5), "W": workshop.normal(5, 4)}
    types = {"ids": "int64", "attention_mask": "int64"}
    workshop.save(nodes, constants, inputs={one: ["n", "t"] for one in types}, types=types)
    assert workshop.align().how == "folded"
    ids = workshop.rng.integers(0, 2, size=(3, 6))
    workshop.assert_shifted(feeds={"ids": ids, "attention_mask": np.ones_like(ids)})


def test_a_model_that_no_random_input_fits_asks_for_a_probe(workshop: Any) -> None:
    wide(workshop)
    with pytest.raises(ValueError, match=r"does not run on random inputs .*--probe inputs\.npz.*'x' tensor\(float\)"):
        workshop.align()
    assert not workshop.out.exists()
    done = workshop.align(probe={"x": workshop.normal(2, 50)})
    assert done.n_probes == 1
    workshop.assert_shifted(feeds={"x": workshop.normal(5, 50)})


def test_a_probe_in_another_precision_is_converted(workshop: Any) -> None:
    wide(workshop)
    workshop.align(probe={"x": workshop.normal(2, 50, dtype="float64")})
    workshop.assert_shifted(feeds={"x": workshop.normal(5, 50)})


@pytest.mark.parametrize(
    ("probe", "named"),
    [
        ({}, r"one array for each input of .*, 'x' .*, got \[\]"),
        ({"x": np.ones((2, 50)), "z": np.ones(2)}, r"got \['x', 'z'\]"),
        ({"x": np.ones((2, 49))}, r"does not run on the probe .*'x' tensor\(float\)"),
        ({"x": np.full((2, 50), "a")}, "does not run on the probe"),
    ],
    ids=["missing", "unknown", "other shape", "text"],
)
def test_a_probe_that_does_not_fit(workshop: Any, probe: Any, named: str) -> None:
    wide(workshop)
    with pytest.raises(ValueError, match=named):
        workshop.align(probe=probe)


def test_text_inputs_cannot_be_drawn(workshop: Any) -> None:
    workshop.save([make_node("MatMul", ["x", "W"], ["y"])], {"W": workshop.normal(5, 4)})
    model = onnx.load(workshop.source)
    model.graph.input.append(helper.make_tensor_value_info("words", TensorProto.STRING, ["n"]))
    onnx.save(model, workshop.source)
    with pytest.raises(ValueError, match=r"its input 'words' holds tensor\(string\).*--probe"):
        workshop.align()


def test_logits_that_are_not_numbers_verify_nothing(workshop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["h"]), make_node("Sqrt", ["h"], ["y"])]
    workshop.save(nodes, {"W": workshop.normal(5, 4)})
    with pytest.raises(ValueError, match=r"'y' is NaN for random inputs \(give real ones with --probe\)"):
        workshop.align()


def test_masked_classes_at_minus_infinity_are_fine(workshop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["h"]), make_node("Add", ["h", "mask"], ["y"])]
    workshop.save(nodes, {"W": workshop.normal(5, 4), "mask": np.array([0, -np.inf, 0, 0], "float32")})
    workshop.align()
    before, after = workshop.run_both()
    np.testing.assert_allclose(after["y"], before["y"] + workshop.shifts.values, atol=1e-5)


def test_a_probe_file(tmp_path: Any) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.arange(3), mask=np.ones(2, bool))
    assert {key: value.tolist() for key, value in read_probe(path).items()} == {"x": [0, 1, 2], "mask": [True, True]}


def test_bad_probe_files(tmp_path: Any) -> None:
    path = tmp_path / "inputs.npz"
    with pytest.raises(ValueError, match=r"cannot read .*inputs\.npz"):
        read_probe(path)
    np.savez(path, x=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"inputs\.npz\['x'\] holds pickled Python objects, which are never loaded"):
        read_probe(path)
    array = io.BytesIO()
    np.save(array, np.ones(3))
    path.write_bytes(array.getvalue())
    with pytest.raises(ValueError, match=r"inputs\.npz must be a \.npz file"):
        read_probe(path)
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(ValueError, match=r"inputs\.npz is damaged"):
        read_probe(path)
