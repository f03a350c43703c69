"""An ONNX graph with an index of its tensors: the node that makes each tensor, and the number of its readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

import onnx
from numpy.typing import NDArray

Model: TypeAlias = onnx.ModelProto
Node: TypeAlias = onnx.NodeProto

# Before this version every initializer had to be an input too; since then, only one that the caller may replace is.
FIRST_IR_WITH_DEFAULTS = 4


class Graph:
    """The main graph of a model, with an index of its tensors. Every edited copy has its own.

    Parameters
    ----------
    model : Model
    folder : Path
        Folder of its external data.
    """

    def __init__(self, model: Model, folder: Path) -> None:
        self.model = model
        self.folder = folder
        self.proto = model.graph
        self.makers: dict[str, Node] = {name: node for node in self.proto.node for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in self.proto.initializer}
        self._readers = Counter(name for node in self.proto.node for name in names_read(node))
        self._readers.update(output.name for output in self.proto.output)

    def copy(self) -> Graph:
        """Return a copy that can be edited."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        return Graph(model, self.folder)

    def n_readers(self, name: str) -> int:
        """Return the number of nodes, subgraphs and graph outputs that read this tensor."""
        return self._readers[name]

    def can_be_fed(self, name: str) -> bool:
        """Return whether an initializer is only a default, which the caller of the model may replace."""
        listed = any(info.name == name for info in self.proto.input)
        return listed and self.model.ir_version >= FIRST_IR_WITH_DEFAULTS

    def downstream(self, name: str) -> set[str]:
        """Return the tensor and everything that is computed from it."""
        reached = {name}
        for node in self.proto.node:  # topologically sorted, by the standard
            if not reached.isdisjoint(names_read(node)):
                reached.update(node.output)
        return reached

    def unused_name(self, name: str) -> str:
        """Return `name`, with a number appended if it is in use."""
        used = _all_names(self.proto)
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        return next(one for one in names if one not in used)

    def add_initializer(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant to the graph; return its name, which has a number appended if `name` is in use."""
        name = self.unused_name(name)
        tensor = onnx.numpy_helper.from_array(value, name)
        self.proto.initializer.append(tensor)
        if self.model.ir_version < FIRST_IR_WITH_DEFAULTS:
            self.proto.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, value.shape))
        return name


def is_op(node: Node, kinds: Collection[str]) -> bool:
    """Return whether the node is one of these operators of the ONNX standard, not a namesake of another domain."""
    return node.domain in ("", "ai.onnx") and node.op_type in kinds


def names_read(node: Node) -> Iterator[str]:
    """Yield the tensors that a node and its subgraphs read."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from names_read(inner)
        yield from (output.name for output in graph.output)


def subgraphs(node: Node) -> Iterator[Any]:
    """Yield the graphs in the attributes of a node: the branches of an If, the body of a Loop or Scan."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _all_names(graph: Any) -> set[str]:
    """Return the names of all tensors and nodes, including subgraphs: a name must be unique in all of them."""
    named = (graph.input, graph.output, graph.initializer, graph.value_info, graph.node)
    names = {one.name for group in named for one in group}
    names.update(tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        names.update(node.input, node.output)
        for inner in subgraphs(node):
            names |= _all_names(inner)
    return names
