"""A graph as the edits see it: who makes a tensor, who reads it, and which names are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import onnx
from numpy.typing import NDArray

Model: TypeAlias = onnx.ModelProto
Node: TypeAlias = onnx.NodeProto

# Up to here every initializer had to be listed among the inputs; from here on, listing it lets a user feed another.
FIRST_IR_WITH_DEFAULTS = 4


class Graph:
    """The main graph of a model with an index of its names, made anew for every copy that is edited.

    Parameters
    ----------
    model : Model
    folder : Path
        Where its data in other files is.
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
        """A graph of its own that may be changed."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        return Graph(model, self.folder)

    def n_readers(self, name: str) -> int:
        """How many nodes, subgraphs and graph outputs take this tensor."""
        return self._readers[name]

    def can_be_fed(self, name: str) -> bool:
        """Whether an initializer is only a default, which whoever runs the model may replace."""
        listed = any(info.name == name for info in self.proto.input)
        return listed and self.model.ir_version >= FIRST_IR_WITH_DEFAULTS

    def downstream(self, name: str) -> set[str]:
        """The tensor and everything that is computed from it."""
        reached = {name}
        for node in self.proto.node:  # in an order in which makers come before readers, by the standard
            if not reached.isdisjoint(names_read(node)):
                reached.update(node.output)
        return reached

    def fresh(self, wish: str) -> str:
        """A name that nothing in the model has: `wish`, or `wish` with a number."""
        taken = _all_names(self.proto)
        number = 1
        name = wish
        while name in taken:
            number += 1
            name = f"{wish}_{number}"
        return name

    def add_initializer(self, wish: str, value: NDArray[Any]) -> str:
        """Put a new constant into the graph; returns its name."""
        name = self.fresh(wish)
        tensor = onnx.numpy_helper.from_array(value, name)
        self.proto.initializer.append(tensor)
        if self.model.ir_version < FIRST_IR_WITH_DEFAULTS:
            self.proto.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, value.shape))
        return name


def is_op(node: Node, kinds: Collection[str]) -> bool:
    """Whether the node is one of these operators of the ONNX standard, not a namesake from elsewhere."""
    return node.domain in ("", "ai.onnx") and node.op_type in kinds


def names_read(node: Node) -> Iterator[str]:
    """The tensors a node takes, those that its subgraphs take from around them included."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from names_read(inner)
        yield from (output.name for output in graph.output)


def subgraphs(node: Node) -> Iterator[Any]:
    """The graphs in the attributes of a node: the branches of an If, the body of a Loop or Scan."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _all_names(graph: Any) -> set[str]:
    """Names of tensors and nodes, subgraphs included: a name is used once in all of them."""
    named = (graph.input, graph.output, graph.initializer, graph.value_info, graph.node)
    names = {one.name for group in named for one in group}
    names.update(tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        names.update(node.input, node.output)
        for inner in subgraphs(node):
            names |= _all_names(inner)
    return names
