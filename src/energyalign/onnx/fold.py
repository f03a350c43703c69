"""Shifts into the bias that the logits are made with: the same graph, nothing more to compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Floats
from energyalign.onnx.comparing import along, rounded
from energyalign.onnx.constants import constant_value, replace_constant
from energyalign.onnx.graph import Graph, Node, is_op

WITH_BIAS = frozenset({"Gemm", "Conv", "Add"})
_BIAS = 2  # the third input, of Gemm and of Conv


def fold(graph: Graph, tensor: str, axis: int, shifts: Floats, made: NDArray[Any]) -> str | None:
    """Add shifts to the constant that is part of a tensor, in place.

    Parameters
    ----------
    axis : int
        That of the classes in the tensor.
    made : array
        What the tensor held in a run of the model as it is.

    Returns
    -------
    str or None
        The name of the constant; None, and nothing changed, if there is none.
    """
    node = graph.makers[tensor]
    if is_op(node, {"Gemm", "Conv"}) and axis == 1:
        beta = next((float(one.f) for one in node.attribute if one.name == "beta"), 1.0)
        return _add_at(graph, node, _BIAS, shifts / beta, made.dtype) if beta else None
    if is_op(node, {"Add"}):
        addend = along(shifts, axis, made.ndim)
        names = (_add_at(graph, node, position, addend, made.dtype) for position in (0, 1))
        return next((name for name in names if name is not None), None)
    return None


def _add_at(graph: Graph, node: Node, position: int, addend: Floats, dtype: np.dtype[Any]) -> str | None:
    """Add to the constant that the node takes there; a bias it does without is given to it."""
    if len(node.input) == position:
        node.input.append("")
    name = str(node.input[position])
    if not name:
        name = graph.add_initializer("energyalign_bias", rounded(addend, dtype))
    else:
        old = constant_value(graph, name)
        if old is None:
            return None
        name = replace_constant(graph, name, rounded(old.astype(np.float64) + addend, old.dtype))
    node.input[position] = name
    return name
