"""The ways to put shifts into a graph, the best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from numpy.typing import NDArray

from energyalign.core.arrays import Floats
from energyalign.onnx.comparing import Values, along, class_axes, rounded
from energyalign.onnx.fold import WITH_BIAS, fold
from energyalign.onnx.graph import Graph, Model, is_op
from energyalign.onnx.logits import Logits


@dataclass(frozen=True)
class Edit:
    """A changed copy of a model, not verified yet."""

    model: Model
    how: str
    node: str
    constant: str


def possible_edits(graph: Graph, logits: Logits, shifts: Floats, values: Values) -> Iterator[Edit]:
    """Changed copies of the model: folded into a bias if there is one, then with one Add node more.

    Parameters
    ----------
    values : Values
        What the tensors on the way back from the logits held in a run of the model as it is.
    """
    yield from _folded(graph, logits, shifts, values)
    array = values[logits.tensor]
    yield _with_node(graph.copy(), logits.tensor, rounded(along(shifts, logits.axis, array.ndim), array.dtype))


def _folded(graph: Graph, logits: Logits, shifts: Floats, values: Values) -> Iterator[Edit]:
    source, maker = logits.way.made[-1], logits.way.nodes[-1]
    # A tensor between bias and logits that something else reads as well must stay as it is.
    private = all(graph.n_readers(tensor) == 1 for tensor in logits.way.made[1:])
    if not (private and is_op(maker, WITH_BIAS) and source in values):
        return
    for axis in class_axes(values[source].shape, len(shifts)):
        copy = graph.copy()
        constant = fold(copy, source, axis, shifts, values[source])
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
