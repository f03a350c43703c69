"""The way back from an output of the graph, through what leaves logits recognisable, to the node that made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from energyalign.onnx.graph import Graph, Node, is_op

# Through these the same numbers come out, perhaps in another shape or precision; whether they do is seen in a run.
COPIES = frozenset({"Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze"})
# Behind logits of classes; behind one logit of two classes, or of each independent label.
SOFTMAXES = {"Softmax": "probabilities", "LogSoftmax": "log-probabilities"}
SIGMOIDS = {"Sigmoid": "sigmoids"}
# A constant per class comes out of these as it went in, so that a bias may also be changed before them.
POOLS = frozenset({"GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax", "Transpose"})


@dataclass(frozen=True)
class Walk:
    """Tensors from an output back to its source, and the nodes that make them.

    Attributes
    ----------
    tensors : tuple of str
        The output first.
    nodes : tuple of Node
        ``nodes[i]`` makes ``tensors[i]``; all but the last are among the kinds above. One shorter than `tensors`
        if the way ends at an input or a constant of the graph.
    """

    tensors: tuple[str, ...]
    nodes: tuple[Node, ...]

    @property
    def maker(self) -> Node | None:
        """The node at which the way back ends; None at an input or a constant."""
        return self.nodes[-1] if len(self.nodes) == len(self.tensors) else None

    @property
    def made(self) -> tuple[str, ...]:
        """The tensors that a node makes, and that a run can therefore show."""
        return self.tensors[: len(self.nodes)]

    def from_depth(self, depth: int) -> Walk:
        """The rest of the way, from the tensor at this depth."""
        return Walk(self.tensors[depth:], self.nodes[depth:])


def walk_back(graph: Graph, output: str, squashes: Mapping[str, str]) -> Walk:
    """Follow first inputs backwards, through copies, pools and the last softmax or sigmoid."""
    tensors, nodes = [output], []
    may_squash = True
    while (node := graph.makers.get(tensors[-1])) is not None:
        nodes.append(node)
        if is_op(node, squashes) and may_squash:
            may_squash = False
        elif not is_op(node, COPIES | POOLS):
            break
        tensors.append(node.input[0])
    return Walk(tuple(tensors), tuple(nodes))
