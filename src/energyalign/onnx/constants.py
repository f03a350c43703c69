"""Constants of a graph: their values, and the same graph with another value."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from energyalign.onnx.graph import Graph, is_op


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
