"""Graphs that get one Add node, and graphs with a softmax or labels after the logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node


def softmax(logits: np.ndarray) -> np.ndarray:
    scaled = np.exp(logits - logits.max(axis=1, keepdims=True))
    return scaled / scaled.sum(axis=1, keepdims=True)


def head(shop: Any) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    return [make_node("Gemm", ["x", "W", "b"], ["z"], "head")], {"W": shop.normal(5, 4), "b": shop.normal(4)}


ADDED: dict[str, list[onnx.NodeProto]] = {
    "bare MatMul": [make_node("MatMul", ["x", "W"], ["y"], "last")],
    "temperature": [make_node("MatMul", ["x", "W"], ["h"]), make_node("Div", ["h", "T"], ["y"], "last")],
    "cosine": [
        make_node("LpNormalization", ["x"], ["u"], axis=1),
        make_node("MatMul", ["u", "W"], ["h"]),
        make_node("Mul", ["h", "T"], ["y"], "last"),
    ],
    "sum of two heads": [
        make_node("MatMul", ["x", "W"], ["h"]),
        make_node("MatMul", ["x", "V"], ["g"]),
        make_node("Add", ["h", "g"], ["y"], "last"),
    ],
}


@pytest.mark.parametrize("kind", ADDED)
def test_one_node_more_where_there_is_no_bias(workshop: Any, kind: str) -> None:
    used = {name for node in ADDED[kind] for name in node.input}
    constants = {"W": workshop.normal(5, 4), "V": workshop.normal(5, 4), "T": np.float32(3.0).reshape(1)}
    workshop.save(ADDED[kind], {name: value for name, value in constants.items() if name in used})
    done = workshop.align()
    assert (done.how, done.node, done.constant) == ("added", "energyalign_add", "energyalign_shifts")
    workshop.assert_shifted()
    before, after = workshop.models()
    assert len(after.graph.node) == len(before.graph.node) + 1
    assert list(after.graph.initializer)[:-1] == list(before.graph.initializer)
    assert [node.name for node in after.graph.node][-2:] == ["last", "energyalign_add"]


def test_a_bias_that_would_end_on_another_axis_is_seen_in_the_run(workshop: Any) -> None:
    """There are as many samples as classes, so shapes alone would allow the bias of the Gemm."""
    nodes = [make_node("Gemm", ["x", "W", "b"], ["h"]), make_node("Transpose", ["h"], ["y"], perm=[1, 0])]
    constants = {"W": workshop.normal(5, 4), "b": workshop.normal(4)}
    workshop.save(nodes, constants, inputs={"x": [4, 5]}, outputs={"y": [4, 4]})
    assert workshop.align().how == "added"
    workshop.assert_shifted(feeds={"x": workshop.normal(4, 5)})


def test_a_namesake_from_another_domain_is_not_taken_for_it(workshop: Any) -> None:
    """A function of the model that is called Softmax, but doubles its input."""
    body = [make_node("Add", ["a", "a"], ["b"])]
    function = helper.make_function("mine", "Softmax", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    nodes = [make_node("MatMul", ["x", "W"], ["h"]), make_node("Softmax", ["h"], ["y"], domain="mine")]
    workshop.save(nodes, {"W": workshop.normal(5, 4)}, functions=[function])
    assert workshop.align().outputs == {"y": "logits"}
    workshop.assert_shifted()


@pytest.mark.parametrize(("kind", "form"), [("Softmax", "probabilities"), ("LogSoftmax", "log-probabilities")])
@pytest.mark.parametrize("opset", [11, 17], ids="opset {}".format)
def test_a_final_softmax_sees_the_corrected_logits(workshop: Any, kind: str, form: str, opset: int) -> None:
    nodes, constants = head(workshop)
    workshop.save([*nodes, make_node(kind, ["z"], ["y"], axis=1)], constants, opset=opset)
    done = workshop.align()
    assert (done.how, done.logits, done.outputs) == ("folded", "z", {"y": form})
    x = workshop.normal(6, 5)
    _, after = workshop.run_both({"x": x})
    wanted = softmax(x @ constants["W"] + constants["b"] + workshop.shifts.values)
    np.testing.assert_allclose(after["y"], wanted if kind == "Softmax" else np.log(wanted), atol=1e-5)


def test_softmax_without_a_bias_before_it(workshop: Any) -> None:
    W = workshop.normal(5, 4)
    workshop.save([make_node("MatMul", ["x", "W"], ["z"]), make_node("Softmax", ["z"], ["y"])], {"W": W})
    assert workshop.align().how == "added"
    x = workshop.normal(6, 5)
    _, after = workshop.run_both({"x": x})
    np.testing.assert_allclose(after["y"], softmax(x @ W + workshop.shifts.values), atol=1e-6)
    assert [node.op_type for node in workshop.models()[1].graph.node] == ["MatMul", "Add", "Softmax"]


def test_of_two_softmaxes_the_last_one_counts(workshop: Any) -> None:
    """The input of the last softmax is the logits, whatever their values."""
    nodes, constants = head(workshop)
    workshop.save([*nodes, make_node("Softmax", ["z"], ["p"]), make_node("Softmax", ["p"], ["y"])], constants)
    assert workshop.align().logits == "p"
    x = workshop.normal(6, 5)
    _, after = workshop.run_both({"x": x})
    wanted = softmax(softmax(x @ constants["W"] + constants["b"]) + workshop.shifts.values)
    np.testing.assert_allclose(after["y"], wanted, atol=1e-6)


@pytest.mark.parametrize("biased", [True, False], ids=["folded", "added"])
def test_labels_logits_and_probabilities_agree_afterwards(workshop: Any, biased: bool) -> None:
    nodes, constants = head(workshop)
    if not biased:
        nodes = [make_node("MatMul", ["x", "W"], ["z"])]
        del constants["b"]
    nodes += [
        make_node("Softmax", ["z"], ["p"]),
        make_node("ArgMax", ["p"], ["label"], axis=1, keepdims=0),
        make_node("Identity", ["z"], ["logits"]),
    ]
    outputs = {"label": ["n"], "p": ["n", 4], "logits": ["n", 4]}
    workshop.save(nodes, constants, outputs=outputs, types={"label": "int64"})
    done = workshop.align()
    assert done.outputs == {"p": "probabilities", "logits": "logits"}
    x = workshop.normal(200, 5)
    before, after = workshop.run_both({"x": x})
    np.testing.assert_array_equal(after["label"], workshop.shifts.predict(before["logits"]))
    np.testing.assert_allclose(after["p"], workshop.shifts.predict_proba(before["logits"]), atol=1e-6)
    np.testing.assert_allclose(after["logits"], before["logits"] + workshop.shifts.values, atol=1e-5)
    assert (after["label"] != before["label"]).any()


def test_an_output_that_has_nothing_to_do_with_the_logits_is_the_same_to_the_bit(workshop: Any) -> None:
    nodes, constants = head(workshop)
    nodes += [make_node("Identity", ["z"], ["y"]), make_node("Tanh", ["x"], ["features"])]
    workshop.save(nodes, constants, outputs={"y": ["n", 4], "features": ["n", 5]})
    workshop.align()
    workshop.assert_shifted()
    before, after = workshop.run_both()
    assert after["features"].tobytes() == before["features"].tobytes()


def test_a_subgraph_that_reads_the_logits_sees_the_corrected_ones(workshop: Any) -> None:
    """An If reads the logits from the outer graph by name."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [make_node(kind, ["y"], [name])], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )
        for name, kind in (("then", "Identity"), ("else", "Neg"))
    }
    nodes = [
        make_node("MatMul", ["x", "W"], ["y"]),
        make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        make_node("Greater", ["top", "zero"], ["positive"]),
        make_node("If", ["positive"], ["chosen"], **branches),
    ]
    constants = {"W": workshop.normal(5, 4), "zero": np.float32(0.0).reshape(())}
    workshop.save(nodes, constants, outputs={"y": ["n", 4], "chosen": ["n", 4]})
    assert workshop.align(output="y").how == "added"
    for sign in (1, -1):
        before, after = workshop.run_both({"x": sign * np.ones((2, 5), "float32")})
        np.testing.assert_allclose(after["chosen"], sign * (before["y"] + workshop.shifts.values), atol=1e-6)


def test_names_that_are_taken_are_not_used_again(workshop: Any) -> None:
    nodes = [
        make_node("MatMul", ["x", "W"], ["y"], "energyalign_add"),
        make_node("Mul", ["x", "energyalign_shifts"], ["y_raw"]),
    ]
    constants = {"W": workshop.normal(5, 4), "energyalign_shifts": workshop.normal(5)}
    workshop.save(nodes, constants, outputs={"y": ["n", 4], "y_raw": ["n", 5]})
    done = workshop.align()
    assert (done.node, done.constant) == ("energyalign_add_2", "energyalign_shifts_2")
    workshop.assert_shifted()
    before, after = workshop.run_both()
    np.testing.assert_array_equal(after["y_raw"], before["y_raw"])


@pytest.mark.parametrize(
    ("after", "shape"),
    [
        ([make_node("Identity", ["z"], ["y"])], ["n", 4]),
        ([make_node("Unsqueeze", ["z", "last"], ["y"])], ["n", 4, 1]),
        ([make_node("Reshape", ["z", "to_map"], ["y"])], ["n", 4, 1, 1]),
        ([make_node("Cast", ["z"], ["y"], to=TensorProto.DOUBLE)], ["n", 4]),
        ([make_node("Dropout", ["z"], ["y"])], ["n", 4]),
    ],
    ids=["Identity", "Unsqueeze", "Reshape", "Cast", "Dropout"],
)
def test_copies_are_looked_through(workshop: Any, after: list[onnx.NodeProto], shape: list[Any]) -> None:
    nodes, constants = head(workshop)
    extra = {"last": np.array([2]), "to_map": np.array([0, 4, 1, 1])}
    constants |= {name: value for name, value in extra.items() if name in after[0].input}
    types = {"y": "float64"} if after[0].op_type == "Cast" else {}
    workshop.save([*nodes, *after], constants, outputs={"y": shape}, types=types)
    done = workshop.align()
    assert (done.how, done.logits) == ("folded", "z")
    workshop.assert_shifted()


def test_tokens_with_classes_on_the_last_axis(workshop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["h"]), make_node("Add", ["h", "b"], ["y"], "head")]
    constants = {"W": workshop.normal(5, 4), "b": workshop.normal(4)}
    workshop.save(nodes, constants, inputs={"x": ["n", "tokens", 5]}, outputs={"y": ["n", "tokens", 4]})
    assert workshop.align().how == "folded"
    before, after = workshop.run_both({"x": workshop.normal(2, 7, 5)})
    np.testing.assert_allclose(after["y"], before["y"] + workshop.shifts.values, atol=1e-5)


def test_pixels_with_classes_on_the_second_axis(workshop: Any) -> None:
    nodes = [make_node("Conv", ["x", "W"], ["h"]), make_node("Relu", ["h"], ["y"])]
    shapes = {"inputs": {"x": ["n", 3, "h", "w"]}, "outputs": {"y": ["n", 4, "h", "w"]}}
    workshop.save(nodes, {"W": workshop.normal(4, 3, 1, 1)}, **shapes)
    assert workshop.align().how == "added"
    workshop.assert_shifted(feeds={"x": workshop.normal(2, 3, 5, 7)})


def test_a_single_sample_without_an_axis_of_samples(workshop: Any) -> None:
    W = workshop.normal(5, 4)
    workshop.save([make_node("MatMul", ["x", "W"], ["y"])], {"W": W}, inputs={"x": [5]}, outputs={"y": [4]})
    workshop.align()
    before, after = workshop.run_both({"x": workshop.normal(5)})
    np.testing.assert_allclose(after["y"], before["y"] + workshop.shifts.values, atol=1e-6)


def test_a_reshape_that_makes_the_axis_of_classes_is_not_looked_through(workshop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["h"]), make_node("Reshape", ["h", "to"], ["y"])]
    constants = {"W": workshop.normal(5, 8), "to": np.array([0, 2, 4])}
    workshop.save(nodes, constants, outputs={"y": ["n", 2, 4]})
    assert workshop.align().logits == "y"
    before, after = workshop.run_both()
    np.testing.assert_allclose(after["y"], before["y"] + workshop.shifts.values, atol=1e-5)


@pytest.mark.parametrize("between", [TensorProto.INT64, TensorProto.BFLOAT16], ids=["integers", "bfloat16"])
def test_logits_that_passed_through_a_type_they_cannot_be_corrected_in(workshop: Any, between: int) -> None:
    nodes = [
        make_node("Gemm", ["x", "W"], ["h"]),
        make_node("Cast", ["h"], ["coarse"], to=between),
        make_node("Cast", ["coarse"], ["y"], to=TensorProto.FLOAT),
    ]
    workshop.save(nodes, {"W": 5 * workshop.normal(5, 4)})
    done = workshop.align()
    assert (done.how, done.logits) == ("added", "y")
    workshop.assert_shifted()
