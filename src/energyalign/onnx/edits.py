"""Two ways to add shifts to a graph: fold them into a bias, or add one Add node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from energyalign.core.arrays import Floats
from energyalign.onnx.comparing import Values, along, class_axes, round_to
from energyalign.onnx.graph import Graph, Model, Node, is_op
from energyalign.onnx.logits import FoundLogits

_WITH_BIAS = frozenset({"Gemm", "Conv", "Add"})
_BIAS = 2  # input of Gemm and of Conv


@dataclass(frozen=True)
class Edit:
    """An edited copy of a model, not verified yet."""

    model: Model
    how: str
    node: str
    constant: str


def possible_edits(graph: Graph, logits: FoundLogits, values: Values) -> Iterator[Edit]:
    """Yield edited copies of the model: with shifts folded into a bias if there is one, then with an Add node.

    Parameters
    ----------
    graph : Graph
    logits : FoundLogits
    values : Values
        Tensors upstream of the logits, in a run of the raw model.
    """
    yield from _fold_into_bias(graph, logits, values)
    array = values[logits.tensor]
    yield _add_node(graph.copy(), logits.tensor, round_to(along(logits.added, logits.axis, array.ndim), array.dtype))


def _fold_into_bias(graph: Graph, logits: FoundLogits, values: Values) -> Iterator[Edit]:
    source, maker = logits.walk.made[-1], logits.walk.nodes[-1]
    # Tensors between bias and logits must have no other reader, because that would see the shifts too.
    private = all(graph.n_readers(tensor) == 1 for tensor in logits.walk.made[1:])
    if not (private and is_op(maker, _WITH_BIAS) and source in values):
        return
    for axis in class_axes(values[source].shape, len(logits.added)):
        copy = graph.copy()
        constant = fold(copy, source, axis, logits.added, values[source])
        if constant is not None:
            yield Edit(copy.model, "folded", str(maker.name or source), constant)


def _add_node(graph: Graph, tensor: str, shifts: NDArray[Any]) -> Edit:
    """Insert an Add after the node that makes the tensor.

    The sum takes the old name, so that every reader, in subgraphs too, reads it without a change.
    """
    maker = graph.makers[tensor]
    raw = graph.unused_name(f"{tensor}_raw")
    constant = graph.add_initializer("energyalign_shifts", shifts)
    node = onnx.helper.make_node("Add", [raw, constant], [tensor], name=graph.unused_name("energyalign_add"))
    maker.output[list(maker.output).index(tensor)] = raw
    graph.proto.node.insert(list(graph.proto.node).index(maker) + 1, node)
    return Edit(graph.model, "added", str(node.name), constant)


def fold(graph: Graph, tensor: str, axis: int, shifts: Floats, made: NDArray[Any]) -> str | None:
    """Add shifts, in place, to a constant that is added into a tensor.

    Parameters
    ----------
    graph : Graph
    tensor : str
    axis : int
        Class axis of the tensor.
    shifts : array
    made : array
        The tensor in a run of the raw model.

    Returns
    -------
    str or None
        Name of the constant; None if there is none, and nothing was changed.
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
    """Add to a constant input of the node, or create it if the optional input is missing."""
    if len(node.input) == position:
        node.input.append("")
    name = str(node.input[position])
    if not name:
        name = graph.add_initializer("energyalign_bias", round_to(addend, dtype))
    else:
        old = constant_value(graph, name)
        if old is None:
            return None
        name = replace_constant(graph, name, round_to(old.astype(np.float64) + addend, old.dtype))
    node.input[position] = name
    return name


def constant_value(graph: Graph, name: str) -> NDArray[Any] | None:
    """Return the value of an initializer, of a Constant node, or of an Identity of these; None if it is not constant.

    An initializer that is also an input is not constant: the caller of the model may replace it.
    """
    if name in graph.initializers:
        return None if graph.can_be_fed(name) else _array(graph, graph.initializers[name])
    maker = graph.makers.get(name)
    if maker is not None and is_op(maker, {"Identity"}):
        return constant_value(graph, maker.input[0])
    if maker is not None and is_op(maker, {"Constant"}):
        (attribute,) = maker.attribute
        if attribute.name == "value":
            return _array(graph, attribute.t)
        if attribute.name in ("value_float", "value_floats"):
            return np.asarray(onnx.helper.get_attribute_value(attribute), dtype=np.float32)
    return None


def replace_constant(graph: Graph, name: str, value: NDArray[Any]) -> str:
    """Change the value of a constant for one of its readers; return the name to read.

    The constant is changed in place if it has no other reader; otherwise a new one is created.
    """
    if graph.n_readers(name) != 1:
        return graph.add_initializer(f"{name}_aligned", value)
    if name in graph.initializers:
        tensor = graph.initializers[name]
        doc_string = tensor.doc_string
        tensor.CopyFrom(onnx.numpy_helper.from_array(value, name))
        if doc_string:
            tensor.doc_string = doc_string
    elif is_op(graph.makers[name], {"Identity"}):
        copy = graph.makers[name]
        copy.input[0] = replace_constant(graph, copy.input[0], value)
    else:
        (attribute,) = graph.makers[name].attribute
        attribute.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(value)))
    _declare_shape(graph, name, value.shape)
    return name


def _array(graph: Graph, tensor: Any) -> NDArray[Any]:
    return np.asarray(onnx.numpy_helper.to_array(tensor, base_dir=str(graph.folder)))


def _declare_shape(graph: Graph, name: str, shape: tuple[int, ...]) -> None:
    """Update the declared shape of a tensor: a single number for all classes becomes one per class."""
    for info in (*graph.proto.value_info, *graph.proto.input):
        if info.name == name:
            dimensions = info.type.tensor_type.shape.dim
            del dimensions[:]
            for size in shape:
                dimensions.add(dim_value=size)
