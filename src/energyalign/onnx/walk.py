"""Walk back from a graph output to the node that computes its logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from energyalign.onnx.graph import Graph, Node, is_op

# These output the same numbers, perhaps in another shape or precision; a run shows whether they do.
COPIES = frozenset({"Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze"})
# These may follow logits of classes.
SOFTMAXES = {"Softmax": "probabilities", "LogSoftmax": "log-probabilities"}
# These may follow one logit of two classes, or logits of independent labels.
SIGMOIDS = {"Sigmoid": "sigmoids"}
# These keep a constant per class, so that the bias may be before them.
POOLS = frozenset({"GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax", "Transpose"})


@dataclass(frozen=True)
class Walk:
    """Tensors from an output back to their source, and the nodes that make them.

    Attributes
    ----------
    tensors : tuple of str
        The output first.
    nodes : tuple of Node
        ``nodes[i]`` makes ``tensors[i]``; all but the last are of the kinds above. One shorter than `tensors` if the
        walk ends at an input or a constant of the graph.
    """

    tensors: tuple[str, ...]
    nodes: tuple[Node, ...]

    @property
    def maker(self) -> Node | None:
        """Node at which the walk ends; None at an input or a constant."""
        return self.nodes[-1] if len(self.nodes) == len(self.tensors) else None

    @property
    def made(self) -> tuple[str, ...]:
        """Tensors that a node makes, which a run can therefore return."""
        return self.tensors[: len(self.nodes)]

    def from_depth(self, depth: int) -> Walk:
        """Return the rest of the walk, from the tensor at this depth."""
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
