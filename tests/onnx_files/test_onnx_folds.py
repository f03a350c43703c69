"""Every kind of bias that shifts can be folded into, and constants that only look like a bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

IMAGES = {"x": ["n", 3, 6, 6]}
SCORES = {"y": ["n", 4]}


def gemm(shop: Any, *, bias: np.ndarray | None, **attributes: Any) -> dict[str, Any]:
    rows, columns = (4, 5) if attributes.get("transB") else (5, 4)
    constants = {"W": shop.normal(rows, columns)} | ({} if bias is None else {"b": bias})
    return {"nodes": [make_node("Gemm", ["x", *constants], ["y"], "head", **attributes)], "constants": constants}


def matmul_add(shop: Any, bias: np.ndarray, *, first: bool = False) -> dict[str, Any]:
    operands = ["b", "h"] if first else ["h", "b"]
    nodes = [make_node("MatMul", ["x", "W"], ["h"], "product"), make_node("Add", operands, ["y"], "head")]
    return {"nodes": nodes, "constants": {"W": shop.normal(5, 4), "b": bias}}


def conv(shop: Any, *after: onnx.NodeProto, bias: bool = True, kernel: int = 6, y: Any = ("n", 4)) -> dict[str, Any]:
    """Make a convolution with 4 maps, followed by nodes that compute y."""
    made = "maps" if after else "y"
    constants = {"W": shop.normal(4, 3, kernel, kernel)} | ({"b": shop.normal(4)} if bias else {})
    nodes = [make_node("Conv", ["x", *constants], [made], "head"), *after]
    return {"nodes": nodes, "constants": constants, "inputs": IMAGES, "outputs": {"y": list(y)}}


def constant_node(shop: Any, **value: Any) -> dict[str, Any]:
    value = value or {"value": onnx.numpy_helper.from_array(shop.normal(4))}
    nodes = [make_node("Constant", [], ["b"], "bias", **value), make_node("Gemm", ["x", "W", "b"], ["y"], "head")]
    return {"nodes": nodes, "constants": {"W": shop.normal(5, 4)}}


def identity_of_bias(shop: Any) -> dict[str, Any]:
    nodes = [make_node("Identity", ["b"], ["copy"]), make_node("Gemm", ["x", "W", "copy"], ["y"], "head")]
    return {"nodes": nodes, "constants": {"W": shop.normal(5, 4), "b": shop.normal(4)}}


def old_file(shop: Any) -> dict[str, Any]:
    """Make a file from a version in which initializers had to be listed as inputs."""
    return gemm(shop, bias=shop.normal(4)) | {"ir_version": 3, "opset": 9, "listed": ["W", "b"]}


FOLDED = {
    "Gemm": lambda s: gemm(s, bias=s.normal(4)),
    "Gemm, transB": lambda s: gemm(s, bias=s.normal(4), transB=1),
    "Gemm, alpha and beta": lambda s: gemm(s, bias=s.normal(4), alpha=0.5, beta=-2.5),
    "Gemm, bias 1 x n": lambda s: gemm(s, bias=s.normal(1, 4)),
    "Gemm, one number as bias": lambda s: gemm(s, bias=s.normal()),
    "Gemm, one-element bias": lambda s: gemm(s, bias=s.normal(1)),
    "Gemm without bias": lambda s: gemm(s, bias=None),
    "Gemm without bias, beta": lambda s: gemm(s, bias=None, beta=0.5, transB=1),
    "MatMul and Add": lambda s: matmul_add(s, s.normal(4)),
    "MatMul and Add, bias first": lambda s: matmul_add(s, s.normal(1, 4), first=True),
    "MatMul and Add of one number": lambda s: matmul_add(s, s.normal()),
    "Conv, 1 x 1 map": lambda s: conv(s, y=("n", 4, 1, 1)),
    "Conv and Flatten": lambda s: conv(s, make_node("Flatten", ["maps"], ["y"])),
    "Conv without bias and Flatten": lambda s: conv(s, make_node("Flatten", ["maps"], ["y"]), bias=False),
    "Conv and pooling": lambda s: conv(
        s, make_node("GlobalAveragePool", ["maps"], ["p"]), make_node("Flatten", ["p"], ["y"]), kernel=3
    ),
    "Conv and mean": lambda s: conv(
        s, make_node("ReduceMean", ["maps"], ["y"], axes=[2, 3], keepdims=0), kernel=1, bias=False
    ),
    "Conv and maximum": lambda s: conv(s, make_node("ReduceMax", ["maps"], ["y"], axes=[2, 3], keepdims=0), kernel=3),
    "Conv and largest pixel": lambda s: conv(
        s, make_node("GlobalMaxPool", ["maps"], ["y"]), kernel=3, y=("n", 4, 1, 1)
    ),
    "Constant node": constant_node,
    "Constant node of floats": lambda s: constant_node(s, value_floats=[0.5, -0.25, 3.0, 1.0]),
    "Constant node of one float": lambda s: constant_node(s, value_float=0.5),
    "Identity of an initializer": identity_of_bias,
    "a file from before IR 4": old_file,
}  # fmt: skip


@pytest.mark.parametrize("head", FOLDED)
def test_a_bias_takes_the_shifts_and_nothing_else_changes(workshop: Any, head: str) -> None:
    parts = FOLDED[head](workshop)
    workshop.save(**parts)
    done = workshop.align()
    assert (done.how, done.node, done.logits in ("y", "maps", "p")) == ("folded", "head", True)
    assert 0 <= done.largest_deviation < 1e-5
    shape = (6, 3, 6, 6) if "inputs" in parts else (6, 5)
    workshop.assert_shifted(feeds={"x": workshop.normal(*shape)})
    before, after = workshop.models()
    assert [node.op_type for node in after.graph.node] == [node.op_type for node in before.graph.node]
    weights = [next(one for one in model.graph.initializer if one.name == "W") for model in (before, after)]
    assert weights[0] == weights[1]


def shared_bias(shop: Any) -> dict[str, Any]:
    """Make a model whose bias is also used by a second output."""
    nodes = [
        make_node("Gemm", ["x", "W", "b"], ["y"], "head"),
        make_node("Gemm", ["x", "V", "b"], ["other"], "second"),
    ]
    constants = {"W": shop.normal(5, 4), "V": shop.normal(5, 4), "b": shop.normal(4)}
    return {"nodes": nodes, "constants": constants, "outputs": {"y": ["n", 4], "other": ["n", 4]}}


def test_a_bias_that_another_node_reads_is_copied_first(workshop: Any) -> None:
    workshop.save(**shared_bias(workshop))
    done = workshop.align(output="y")
    assert (done.how, done.constant) == ("folded", "b_aligned")
    workshop.assert_shifted()
    before, after = workshop.run_both()
    np.testing.assert_array_equal(after["other"], before["other"])


def test_an_identity_that_another_node_reads_is_left_alone(workshop: Any) -> None:
    nodes = [
        make_node("Identity", ["b"], ["copy"]),
        make_node("Gemm", ["x", "W", "copy"], ["y"], "head"),
        make_node("Add", ["x", "copy"], ["other"]),
    ]
    workshop.features = 4
    outputs = {"y": ["n", 4], "other": ["n", 4]}
    workshop.save(nodes, {"W": workshop.normal(4, 4), "b": workshop.normal(4)}, outputs=outputs)
    workshop.align(output="y")
    workshop.assert_shifted()
    before, after = workshop.run_both()
    np.testing.assert_array_equal(after["other"], before["other"])


def test_a_bias_that_may_be_fed_stays_one(workshop: Any) -> None:
    """Since IR 4 a listed initializer is a default: a caller who feeds another bias must get the shifts too."""
    workshop.save(**gemm(workshop, bias=workshop.normal(4)), listed=["b"])
    assert workshop.align().how == "added"
    workshop.assert_shifted()
    workshop.assert_shifted(feeds={"x": workshop.normal(6, 5), "b": workshop.normal(4)})


def test_a_bias_that_counts_for_nothing_is_not_used(workshop: Any) -> None:
    workshop.save(**gemm(workshop, bias=workshop.normal(4), beta=0.0))
    assert workshop.align().how == "added"
    workshop.assert_shifted()


def test_maps_that_are_shown_as_well_stay_as_they_are(workshop: Any) -> None:
    """Folding would change the class activation maps, which are not computed from the logits."""
    parts = conv(workshop, make_node("ReduceMean", ["maps"], ["y"], axes=[2, 3], keepdims=0), kernel=3)
    workshop.save(**parts | {"outputs": {"y": ["n", 4], "maps": ["n", 4, 4, 4]}})
    feeds = {"x": workshop.normal(2, 3, 6, 6)}
    assert workshop.align(output="y").how == "added"
    workshop.assert_shifted(feeds=feeds)
    before, after = workshop.run_both(feeds)
    np.testing.assert_array_equal(after["maps"], before["maps"])


def test_maps_that_are_used_together_with_the_logits_stay_raw(workshop: Any) -> None:
    """Maps weighted by their logits: the logits get the shifts, the maps do not."""
    pool = make_node("GlobalAveragePool", ["maps"], ["y"])
    parts = conv(workshop, pool, make_node("Mul", ["maps", "y"], ["weighted"]), kernel=3)
    workshop.save(**parts | {"outputs": {"y": ["n", 4, 1, 1], "weighted": ["n", 4, 4, 4]}})
    workshop.align(output="y")
    before, after = workshop.run_both({"x": workshop.normal(2, 3, 6, 6)})
    maps = before["weighted"] / before["y"]
    np.testing.assert_allclose(after["weighted"], maps * after["y"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float64", 1e-14)])
def test_other_precisions(workshop: Any, dtype: str, tolerance: float) -> None:
    constants = {"W": workshop.normal(5, 4, dtype=dtype), "b": workshop.normal(4, dtype=dtype)}
    types = dict.fromkeys("xy", dtype)
    workshop.save([make_node("Gemm", ["x", "W", "b"], ["y"], "head")], constants, types=types)
    assert workshop.align().how == "folded"
    workshop.assert_shifted(feeds={"x": workshop.normal(6, 5, dtype=dtype)}, tolerance=tolerance)
    (bias,) = [onnx.numpy_helper.to_array(one) for one in workshop.models()[1].graph.initializer if one.name == "b"]
    once_rounded = (constants["b"].astype(float) + workshop.shifts.values).astype(dtype)
    np.testing.assert_array_equal(bias, once_rounded)


def test_shifts_beyond_half_precision_are_refused(workshop: Any, make_shifts: Any) -> None:
    constants = {"W": workshop.normal(5, 4, dtype="float16"), "b": workshop.normal(4, dtype="float16")}
    workshop.save([make_node("Gemm", ["x", "W", "b"], ["y"])], constants, types=dict.fromkeys("xy", "float16"))
    workshop.shifts = make_shifts([0.0, 1e6, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"model\.onnx cannot be aligned.*off by inf"):
        workshop.align()
    assert not workshop.out.exists()
