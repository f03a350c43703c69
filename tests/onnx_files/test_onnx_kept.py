"""Parts of a model that must not change, compared proto by proto."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.helper import make_node


@pytest.fixture
def folded(workshop: Any) -> Any:
    nodes = [make_node("Gemm", ["x", "W", "b"], ["y"], "head", doc_string="the head")]
    workshop.save(nodes, {"W": workshop.normal(5, 4), "b": workshop.normal(4)})
    model = onnx.load(workshop.source)
    model.graph.value_info.append(helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4]))
    model.graph.initializer[1].doc_string = "learnt"
    model.model_version = 12
    model.domain = "org.example"
    onnx.save(model, workshop.source)
    workshop.align()
    return workshop


def test_only_the_bias_and_one_metadata_entry_differ_when_folded(folded: Any) -> None:
    before, after = folded.models()
    bias = onnx.numpy_helper.to_array(before.graph.initializer[1])
    expected = (bias.astype(float) + folded.shifts.values).astype("float32")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(after.graph.initializer[1]), expected)
    after.graph.initializer[1].raw_data = before.graph.initializer[1].raw_data
    assert after.metadata_props.pop().key == "energyalign"
    assert after == before


def test_one_node_one_constant_and_one_name_differ_when_added(workshop: Any) -> None:
    workshop.save([make_node("MatMul", ["x", "W"], ["y"], "last")], {"W": workshop.normal(5, 4)})
    workshop.align()
    before, after = workshop.models()
    node = after.graph.node.pop()
    constant = after.graph.initializer.pop()
    assert (node.op_type, list(node.input), list(node.output)) == ("Add", ["y_raw", constant.name], ["y"])
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(constant), workshop.shifts.values.astype("float32"))
    after.graph.node[0].output[0] = "y"
    after.metadata_props.pop()
    assert after == before


def test_a_file_from_before_ir_4_lists_the_new_constant_as_it_must(workshop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["y"])]
    workshop.save(nodes, {"W": workshop.normal(5, 4)}, ir_version=3, opset=9, listed=["W"])
    assert workshop.align().how == "added"
    workshop.assert_shifted()
    assert [one.name for one in workshop.models()[1].graph.input] == ["x", "W", "energyalign_shifts"]


def test_a_declared_shape_follows_the_bias_that_grew(workshop: Any) -> None:
    workshop.save([make_node("Gemm", ["x", "W", "b"], ["y"])], {"W": workshop.normal(5, 4), "b": workshop.normal(1)})
    model = onnx.load(workshop.source)
    model.graph.value_info.append(helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [1]))
    onnx.save(model, workshop.source)
    workshop.align()
    (info,) = workshop.models()[1].graph.value_info
    assert [dimension.dim_value for dimension in info.type.tensor_type.shape.dim] == [4]
    workshop.assert_shifted()


def test_the_batch_stays_free(folded: Any) -> None:
    for rows in (1, 2, 9):
        folded.assert_shifted(feeds={"x": folded.normal(rows, 5)})


def test_the_note_says_what_was_added(folded: Any) -> None:
    notes = {entry.key: entry.value for entry in folded.models()[1].metadata_props}
    assert {key: notes[key] for key in ("author", "labels")} == {"author": "someone", "labels": "a,b,c,d"}
    note = json.loads(notes["energyalign"])
    digest = hashlib.sha256(np.array([0.75, -1.5, 2.0, 0.0], "<f8").tobytes()).hexdigest()
    assert {key: note[key] for key in ("estimator", "n_classes", "sha256")} == {
        "estimator": "lse", "n_classes": 4, "sha256": digest
    }  # fmt: skip


def test_a_second_time_is_refused(folded: Any) -> None:
    folded.source = folded.out
    folded.out = folded.source.with_name("twice.onnx")
    with pytest.raises(ValueError, match=r"aligned\.onnx is already aligned .*start from the original file"):
        folded.align()
    assert not folded.out.exists()


@pytest.mark.parametrize("link", [False, True], ids=["itself", "through a link"])
def test_a_model_is_not_aligned_in_place(workshop: Any, link: bool) -> None:
    workshop.save([make_node("MatMul", ["x", "W"], ["y"])], {"W": workshop.normal(5, 4)})
    old = workshop.source.read_bytes()
    if link:
        workshop.out.symlink_to(workshop.source)
    else:
        workshop.out = workshop.source
    with pytest.raises(ValueError, match=r"is the same file as the input .*: choose another name for the output"):
        workshop.align()
    assert workshop.source.read_bytes() == old
