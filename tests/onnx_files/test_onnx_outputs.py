"""Which output holds the logits, and models without recognisable logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node

LOGITS = make_node("MatMul", ["x", "W"], ["z"])


def two_heads(shop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["a"]), make_node("MatMul", ["x", "V"], ["b"])]
    outputs = {"a": ["n", 4], "b": ["n", 4]}
    shop.save(nodes, {"W": shop.normal(5, 4), "V": shop.normal(5, 4)}, outputs=outputs)


def test_two_heads_must_be_told_apart(workshop: Any) -> None:
    two_heads(workshop)
    with pytest.raises(ValueError, match=r"outputs 'a', 'b' of .*model\.onnx could each be .*--output"):
        workshop.align()
    workshop.align(output="b")
    workshop.assert_shifted("b")
    before, after = workshop.run_both()
    np.testing.assert_array_equal(after["a"], before["a"])


def test_an_output_that_is_not_there(workshop: Any) -> None:
    two_heads(workshop)
    with pytest.raises(ValueError, match=r"no output 'c': choose one of 'a', 'b'"):
        workshop.align(output="c")


def test_the_head_with_the_right_number_of_columns_is_found(workshop: Any) -> None:
    """The declared shapes do not show which one it is; a run does."""
    nodes = [make_node("MatMul", ["x", "V"], ["other"]), make_node("MatMul", ["x", "W"], ["y"])]
    outputs = {"other": ["n", "some"], "y": ["n", "more"]}
    workshop.save(nodes, {"W": workshop.normal(5, 4), "V": workshop.normal(5, 3)}, outputs=outputs)
    assert workshop.align().outputs == {"y": "logits"}
    workshop.assert_shifted()


HIDDEN: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "sigmoid": ([LOGITS, make_node("Sigmoid", ["z"], ["y"])], "output 'y' is made by Sigmoid"),
    "rounded softmax": (
        [LOGITS, make_node("Softmax", ["z"], ["p"]), make_node("Clip", ["p"], ["y"])], "'y' holds probabilities"
    ),
    "softmax by hand": (
        [
            LOGITS,
            make_node("Exp", ["z"], ["e"]),
            make_node("ReduceSum", ["e", "axis"], ["s"]),
            make_node("Div", ["e", "s"], ["y"]),
        ],
        "'y' holds probabilities",
    ),
    "log-softmax by hand": (
        [LOGITS, make_node("ReduceLogSumExp", ["z"], ["s"], axes=[1]), make_node("Sub", ["z", "s"], ["y"])],
        "'y' holds probabilities, or their logarithms",
    ),
    "softmax over the samples": ([LOGITS, make_node("Softmax", ["z"], ["y"], axis=0)], "softmax over another axis"),
    "softmax of the input": ([make_node("Softmax", ["x"], ["y"])], "'y' is an input or a constant of the model"),
}  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_logits_that_cannot_be_told_are_refused(workshop: Any, case: str) -> None:
    nodes, reason = HIDDEN[case]
    used = {name for node in nodes for name in node.input}
    constants = {"W": workshop.normal(5, 4), "axis": np.array([1])}
    workshop.features = 5 if "W" in used else 4
    workshop.save(nodes, {name: value for name, value in constants.items() if name in used})
    workshop.out.write_bytes(b"old")
    with pytest.raises(ValueError, match="has no recognisable logits output for 4 classes") as raised:
        workshop.align()
    assert reason in str(raised.value)
    assert "export it again with the logits, before any softmax" in str(raised.value)
    assert workshop.out.read_bytes() == b"old"


def trees(shop: Any, weights: list[float]) -> None:
    """Make a decision tree as scikit-learn converters do: a label, and a list of dictionaries."""
    node = make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.0, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0] * 8, class_nodeids=[1] * 4 + [2] * 4, class_ids=[0, 1, 2, 3] * 2,
        class_weights=weights, classlabels_int64s=[0, 1, 2, 3], post_transform="NONE",
    )  # fmt: skip
    zipmap = make_node("ZipMap", ["p"], ["named"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3])
    shop.save([node], {}, outputs={"label": ["n"], "p": ["n", 4]}, types={"label": "int64"})
    model = onnx.load(shop.source)
    model.graph.node.append(zipmap)
    pairs = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    model.graph.output.append(helper.make_value_info("named", helper.make_sequence_type_proto(pairs)))
    onnx.save(model, shop.source)


def test_probabilities_of_trees_are_weighted_and_normalised(workshop: Any) -> None:
    """With shifts 0.75, -1.5, 2, 0 of four classes, by hand."""
    trees(workshop, [0.1, 0.2, 0.3, 0.4, 0.9, 0.0, 0.0, 0.1])
    done = workshop.align()
    assert done.outputs == {"label": "labels", "p": "probabilities", "named": "probabilities"}
    before, after = workshop.run_both({"x": np.array([[-1, 0, 0, 0, 0], [1, 0, 0, 0, 0]], dtype=np.float32)})
    assert before["label"].tolist() == [3, 0]
    first = np.array([0.1 * np.exp(0.75), 0.2 * np.exp(-1.5), 0.3 * np.exp(2.0), 0.4])
    second = np.array([0.9 * np.exp(0.75), 1e-6 * np.exp(-1.5), 1e-6 * np.exp(2.0), 0.1])
    np.testing.assert_allclose(after["p"], [first / first.sum(), second / second.sum()], rtol=1e-5)
    assert after["label"].tolist() == [2, 0]
    for named, row in zip(after["named"], after["p"], strict=True):
        assert named == pytest.approx(dict(enumerate(row.tolist())))


def test_votes_of_trees_are_neither_logits_nor_probabilities(workshop: Any) -> None:
    trees(workshop, [1.0, 2.0, 3.0, 4.0, 7.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="has no recognisable logits output") as raised:
        workshop.align()
    for reason in ("'label' holds tensor(int64)", "'p' is made by TreeEnsembleClassifier", "'named' holds seq(map("):
        assert reason in str(raised.value)


def test_shifts_of_another_model(workshop: Any, make_shifts: Any) -> None:
    two_heads(workshop)
    workshop.shifts = make_shifts([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"for 3 classes: output 'a' has shape \(3, 4\), without 3 columns"):
        workshop.align()


def test_two_axes_of_as_many_entries_as_classes(workshop: Any) -> None:
    workshop.save(
        [make_node("MatMul", ["x", "W"], ["y"])], {"W": workshop.normal(5, 4)},
        inputs={"x": ["n", 4, 5]}, outputs={"y": ["n", 4, 4]},
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"\(3, 4, 4\), with 4 columns on more than one axis"):
        workshop.align()


def test_a_softmax_tells_two_such_axes_apart(workshop: Any) -> None:
    nodes = [make_node("MatMul", ["x", "W"], ["z"]), make_node("Softmax", ["z"], ["y"], axis=1)]
    W = workshop.normal(5, 4)
    workshop.save(nodes, {"W": W}, inputs={"x": ["n", 4, 5]}, outputs={"y": ["n", 4, 4]})
    workshop.align()
    x = workshop.normal(2, 4, 5)
    _, after = workshop.run_both({"x": x})
    wanted = np.exp(x @ W + workshop.shifts.values[:, None])
    np.testing.assert_allclose(after["y"], wanted / wanted.sum(axis=1, keepdims=True), atol=1e-6)
