"""Heads other than samples x classes: one logit, tokens, pixels, independent labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from energyalign import EnergyAligner, EnergyAlignError, MultilabelShifts, Shifts
from energyalign.onnx import align_onnx

IMAGES = {"x": ["n", 3, "h", "w"]}
TOKENS = {"x": ["n", "t", 5]}
TWO = [0.25, 1.5]
FOUR = [0.75, -1.5, 2.0, 0.0]


def linear(shop: Any, *after: Any, columns: int = 1, y: Any = ("n", 1)) -> dict[str, Any]:
    """Make a layer, followed by nodes that compute y."""
    constants = {"W": shop.normal(5, columns), "b": shop.normal(columns)}
    nodes = [make_node("Gemm", ["x", "W", "b"], ["z" if after else "y"], "head"), *after]
    return {"nodes": nodes, "constants": constants, "outputs": {"y": list(y)}}


def conv(shop: Any, *after: Any, columns: int = 1) -> dict[str, Any]:
    constants = {"W": shop.normal(columns, 3, 1, 1), "b": shop.normal(columns)}
    nodes = [make_node("Conv", ["x", "W", "b"], ["z" if after else "y"], "head"), *after]
    return {"nodes": nodes, "constants": constants, "inputs": IMAGES, "outputs": {"y": ["n", columns, "H", "W"]}}


def tokens(shop: Any, *, columns: int) -> dict[str, Any]:
    nodes = [make_node("MatMul", ["x", "W"], ["h"]), make_node("Add", ["h", "b"], ["y"], "head")]
    constants = {"W": shop.normal(5, columns), "b": shop.normal(columns)}
    return {"nodes": nodes, "constants": constants, "inputs": TOKENS, "outputs": {"y": ["n", "t", columns]}}


def squeezed(shop: Any) -> dict[str, Any]:
    model = linear(shop, make_node("Squeeze", ["z", "last"], ["y"]), y=["n"])
    model["constants"]["last"] = np.array([1])
    return model


def upsampled(shop: Any, columns: int) -> dict[str, Any]:
    """Make small maps and enlarge them, as segmentation networks do."""
    model = conv(shop, make_node("Resize", ["z", "", "twice"], ["y"], "larger", mode="linear"), columns=columns)
    model["constants"]["twice"] = np.array([1, 1, 2, 2], dtype=np.float32)
    return model


CLASSES = {
    "one logit": (linear, TWO, (6, 5), "folded"),
    "one logit, (n,)": (squeezed, TWO, (6, 5), "folded"),
    "one logit per token": (lambda s: tokens(s, columns=1), TWO, (2, 7, 5), "folded"),
    "one logit per pixel": (conv, TWO, (2, 3, 6, 7), "folded"),
    "one logit per pixel, made larger": (lambda s: upsampled(s, 1), TWO, (2, 3, 6, 7), "added"),
    "tokens": (lambda s: tokens(s, columns=4), FOUR, (2, 7, 5), "folded"),
    "pixels": (lambda s: conv(s, columns=4), FOUR, (2, 3, 6, 7), "folded"),
    "pixels, made larger": (lambda s: upsampled(s, 4), FOUR, (2, 3, 6, 7), "added"),
}


@pytest.mark.parametrize("case", CLASSES)
def test_raw_logits_plus_what_the_shifts_add_in_arrays(
    workshop: Any, make_shifts: Callable[..., Shifts], case: str
) -> None:
    model, values, shape, how = CLASSES[case]
    workshop.save(**model(workshop))
    shifts = make_shifts(values)
    done = align_onnx(workshop.source, shifts, workshop.out)
    assert (done.how, done.outputs) == (how, {"y": "logits"})
    raw, found = (run["y"] for run in workshop.run_both({"x": workshop.normal(*shape)}))
    assert np.ptp(raw) > 0.5
    np.testing.assert_allclose(found, shifts.apply(raw), atol=1e-5)
    assert np.abs(found - raw).max() > 1


@pytest.fixture
def label_shifts() -> MultilabelShifts:
    """Return shifts for rare labels: all three are positive."""
    rng = np.random.default_rng(0)
    labels = (rng.random((400, 3)) < [0.3, 0.1, 0.05]).astype(int)
    logits = 2 * labels - 3 + rng.normal(size=(400, 3))
    shifts = EnergyAligner(multilabel=True, estimator="marginal", evidence="held-out").fit(logits, labels).shifts_
    assert isinstance(shifts, MultilabelShifts)
    return shifts


LABELS = {
    "samples": (lambda s: linear(s, columns=3, y=("n", 3)), (6, 5)),
    "tokens": (lambda s: tokens(s, columns=3), (2, 7, 5)),
    "pixels": (lambda s: conv(s, columns=3), (2, 3, 6, 7)),
}


@pytest.mark.parametrize("case", LABELS)
def test_independent_labels(workshop: Any, label_shifts: MultilabelShifts, case: str) -> None:
    model, shape = LABELS[case]
    workshop.save(**model(workshop))
    assert align_onnx(workshop.source, label_shifts, workshop.out).how == "folded"
    raw, found = (run["y"] for run in workshop.run_both({"x": workshop.normal(*shape)}))
    np.testing.assert_allclose(found, label_shifts.apply(raw), atol=1e-5)


def test_sigmoids_and_decisions_follow(workshop: Any, label_shifts: MultilabelShifts) -> None:
    after = [
        make_node("Sigmoid", ["z"], ["y"]),
        make_node("Greater", ["y", "half"], ["above"]),
        make_node("Cast", ["above"], ["labels"], to=7),
    ]
    model = linear(workshop, *after, columns=3, y=("n", 3))
    model["constants"]["half"] = np.float32(0.5)
    model["outputs"] |= {"z": ["n", 3], "labels": ["n", 3]}
    workshop.save(**model, types={"labels": "int64"})
    done = align_onnx(workshop.source, label_shifts, workshop.out)
    assert done.outputs == {"y": "sigmoids", "z": "logits"}
    raw, found = workshop.run_both({"x": 3 * workshop.normal(50, 5)})
    np.testing.assert_allclose(found["y"], label_shifts.predict_proba(raw["z"]), atol=1e-6)
    np.testing.assert_array_equal(found["labels"], label_shifts.predict(raw["z"]))
    assert np.any(found["labels"] != raw["labels"])


def test_the_sigmoid_of_one_logit(workshop: Any, make_shifts: Callable[..., Shifts]) -> None:
    workshop.save(**linear(workshop, make_node("Sigmoid", ["z"], ["y"])))
    shifts = make_shifts(TWO)
    assert align_onnx(workshop.source, shifts, workshop.out).outputs == {"y": "sigmoids"}
    raw, found = (run["y"].astype(float) for run in workshop.run_both())
    np.testing.assert_allclose(found[:, 0], shifts.predict_proba(np.log(raw / (1 - raw)))[:, 1], atol=1e-6)


def test_two_columns_are_taken_before_one(workshop: Any, make_shifts: Callable[..., Shifts]) -> None:
    """A second output with one column is not a logit for these two classes."""
    model = linear(workshop, columns=2, y=("n", 2))
    model["nodes"].append(make_node("ReduceSum", ["x", "last"], ["size"]))
    model["constants"]["last"] = np.array([1])
    model["outputs"]["size"] = ["n", 1]
    workshop.save(**model)
    assert align_onnx(workshop.source, make_shifts(TWO), workshop.out).outputs == {"y": "logits"}
    before, after = workshop.run_both()
    np.testing.assert_array_equal(before["size"], after["size"])


REFUSED = {
    "softmax": ([make_node("Softmax", ["z"], ["y"])], "output 'y' is made by Softmax"),
    "a sigmoid by hand": (
        [
            make_node("Neg", ["z"], ["m"]),
            make_node("Exp", ["m"], ["e"]),
            make_node("Add", ["e", "one"], ["s"]),
            make_node("Reciprocal", ["s"], ["y"]),
        ],
        "output 'y' holds numbers from 0 to 1, without a recognisable Sigmoid node",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_logit_of_independent_labels(workshop: Any, label_shifts: MultilabelShifts, case: str) -> None:
    after, reason = REFUSED[case]
    model = linear(workshop, *after, columns=3, y=("n", 3))
    model["constants"]["one"] = np.float32(1)
    workshop.save(**model)
    with pytest.raises(EnergyAlignError, match=reason):
        align_onnx(workshop.source, label_shifts, workshop.out)
    assert not Path(workshop.out).exists()


def test_neither_two_columns_nor_one(workshop: Any, make_shifts: Callable[..., Shifts]) -> None:
    workshop.save(**linear(workshop, columns=3, y=("n", 3)))
    with pytest.raises(EnergyAlignError, match=r"without 2 columns; output 'y' has shape \(3, 3\), without 1 column\."):
        align_onnx(workshop.source, make_shifts(TWO), workshop.out)
