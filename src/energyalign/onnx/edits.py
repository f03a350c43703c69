"""The ways to put shifts into a graph: into a bias, with the same graph, or by one Add node more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from energyalign.core.arrays import Floats
from energyalign.onnx.comparing import Values, along, class_axes, rounded
from energyalign.onnx.graph import Graph, Model, Node, is_op
from energyalign.onnx.logits import FoundLogits

_WITH_BIAS = frozenset({"Gemm", "Conv", "Add"})
_BIAS = 2  # the third input, of Gemm and of Conv


@dataclass(frozen=True)
class Edit:
    """A changed copy of a model, not verified yet."""

    model: Model
    how: str
    node: str
    constant: str


def possible_edits(graph: Graph, logits: FoundLogits, values: Values) -> Iterator[Edit]:
    """Changed copies of the model: folded into a bias if there is one, then with one Add node more.

    Parameters
    ----------
    values : Values
        What the tensors on the way back from the logits held in a run of the model as it is.
    """
    yield from _folded(graph, logits, values)
    array = values[logits.tensor]
    yield _with_node(graph.copy(), logits.tensor, rounded(along(logits.added, logits.axis, array.ndim), array.dtype))


def _folded(graph: Graph, logits: FoundLogits, values: Values) -> Iterator[Edit]:
    source, maker = logits.way.made[-1], logits.way.nodes[-1]
    # A tensor between bias and logits that something else reads as well must stay as it is.
    private = all(graph.n_readers(tensor) == 1 for tensor in logits.way.made[1:])
    if not (private and is_op(maker, _WITH_BIAS) and source in values):
        return
    for axis in class_axes(values[source].shape, len(logits.added)):
        copy = graph.copy()
        constant = fold(copy, source, axis, logits.added, values[source])
        if constant is not None:
            yield Edit(copy.model, "folded", str(maker.name or source), constant)


def _with_node(graph: Graph, tensor: str, shifts: NDArray[Any]) -> Edit:
    """One Add behind the maker of the tensor.

    The Add makes it under its old name, so that every reader, in subgraphs too, sees the sum unasked.
    """
    maker = graph.makers[tensor]
    raw = graph.fresh(f"{tensor}_raw")
    constant = graph.add_initializer("energyalign_shifts", shifts)
    node = onnx.helper.make_node("Add", [raw, constant], [tensor], name=graph.fresh("energyalign_add"))
    maker.output[list(maker.output).index(tensor)] = raw
    graph.proto.node.insert(list(graph.proto.node).index(maker) + 1, node)
    return Edit(graph.model, "added", str(node.name), constant)


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


def constant_value(graph: Graph, name: str) -> NDArray[Any] | None:
    """The value of an initializer, a Constant node, or an Identity of one of them; None if it is no constant.

    An initializer that whoever runs the model may replace is none.
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
    """Give one reader of a constant another value; returns the name it must read.

    The constant itself is changed if nothing else reads it; otherwise there is a new one beside it.
    """
    if graph.n_readers(name) != 1:
        return graph.add_initializer(f"{name}_aligned", value)
    if name in graph.initializers:
        tensor = graph.initializers[name]
        explained = tensor.doc_string
        tensor.CopyFrom(onnx.numpy_helper.from_array(value, name))
        if explained:
            tensor.doc_string = explained
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
    """Let what the graph says of a tensor follow: a single number for all classes becomes one for each."""
    for info in (*graph.proto.value_info, *graph.proto.input):
        if info.name == name:
            dimensions = info.type.tensor_type.shape.dim
            del dimensions[:]
            for size in shape:
                dimensions.add(dim_value=size)
