"""Models that end in a classifier of ai.onnx.ml, as skl2onnx writes trees and linear models: labels and probabilities.

There are no logits to add shifts to. Their place is taken by logarithms of the probabilities, behind which there are
a softmax and the labels anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.helper import make_node

from energyalign.core.arrays import Floats
from energyalign.core.names import numbers, order_by_name
from energyalign.core.probabilities import MIN_PROBABILITY, are_probabilities
from energyalign.core.shifts import Shifts
from energyalign.onnx.comparing import Values, close, largest_difference, log_softmax
from energyalign.onnx.edits import Edit
from energyalign.onnx.graph import Graph, Node, is_op
from energyalign.onnx.verify import NotAligned

_ML = "ai.onnx.ml"
_CLASSIFIERS = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})
_CLEAR = 1e-4  # between the two largest probabilities: rounding does not decide about the label


@dataclass(frozen=True)
class ClassifierNode:
    """The classifier at the end of a graph.

    Attributes
    ----------
    labels, probabilities : str
        Tensors; other nodes may only rename, cast and normalise them on their ways to the outputs.
    classes : array of shape (n_classes,)
        The label of each column: numbers, or text.
    outputs : dict from str to str
        Outputs of the graph that show them: as ``labels`` or ``probabilities``.
    """

    labels: str
    probabilities: str
    classes: NDArray[Any]
    outputs: dict[str, str]

    def shifts_by_name(self, shifts: Shifts, name: str) -> Floats:
        """Shifts in the order of the columns. Columns that are called 0, 1, 2, ... have that order."""
        names = tuple(str(label) for label in self.classes.tolist())
        if shifts.class_names is None or names == numbers(len(names)):
            return shifts.values
        return shifts.values[order_by_name(shifts.class_names, names, "the shifts", f"those of {name}")]

    def has_probabilities(self, runs: Sequence[Values], n_classes: int) -> bool:
        """Whether there is one probability for each of so many classes, on all inputs that were tried."""
        arrays = [values[self.probabilities] for values in runs]
        return len(self.classes) == n_classes and all(
            one.dtype.kind == "f" and one.shape == (len(one), n_classes) and are_probabilities(one) for one in arrays
        )

    def corrected(self, raw: NDArray[Any], shifts: Floats) -> NDArray[np.float64]:
        """What the probabilities should become."""
        return np.exp(log_softmax(np.log(np.maximum(raw.astype(np.float64), MIN_PROBABILITY)) + shifts, axis=1))

    def verify(
        self, before: Sequence[Values], after: Sequence[Values], shifts: Floats, unrelated: Sequence[str]
    ) -> float:
        """Compare runs of the raw and the edited model; returns the largest error of a probability."""
        worst = 0.0
        for old, new in zip(before, after, strict=True):
            wanted, found = self.corrected(old[self.probabilities], shifts), new[self.probabilities]
            worst = max(worst, largest_difference(found, wanted))
            if not close(found, wanted):
                raise NotAligned(f"the probabilities are off by {worst:.2g}")
            second, first = np.sort(wanted, axis=1)[:, -2:].T
            clear = first - second > _CLEAR
            if not np.array_equal(new[self.labels][clear], self.classes[wanted.argmax(axis=1)][clear]):
                raise NotAligned("labels are not those of the largest probabilities")
            if not all(close(new[output], old[output]) for output in unrelated):
                raise NotAligned("an output changed that is not computed from the probabilities")
        return worst


def find_classifier_node(graph: Graph) -> ClassifierNode | None:
    """The classifier node at which the ways back from the outputs end; None if there is none, or more than one."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for output in graph.proto.output:
        node, made, place = _walk_back(graph, output.name)
        if node is not None:
            form = "labels" if made == node.output[0] else "probabilities"
            found.setdefault((node.output[0], form), {})[output.name] = place
    labels = {label for label, _ in found}
    if len(labels) != 1 or len(found) != 2:
        return None
    (label,) = labels
    places = set(found[label, "probabilities"].values())
    if len(places) != 1:
        return None
    forms = {output: form for (_, form), outputs in found.items() for output in outputs}
    return ClassifierNode(label, places.pop(), _classes(graph.makers[label]), forms)


def _walk_back(graph: Graph, output: str) -> tuple[Node | None, str, str]:
    """The classifier node behind an output, which of its tensors that is, and the tensor to change on the way."""
    tensor = place = output
    while (node := graph.makers.get(tensor)) is not None:
        if node.domain == _ML and node.op_type in _CLASSIFIERS:
            return node, tensor, place
        zipped = node.domain == _ML and node.op_type == "ZipMap"
        if not (zipped or is_op(node, {"Identity", "Cast"}) or (node.domain == _ML and node.op_type == "Normalizer")):
            break
        tensor = node.input[0]
        place = tensor if zipped else place
    return None, tensor, place


def _classes(node: Node) -> NDArray[Any]:
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    strings = attributes.get("classlabels_strings")
    if strings:
        return np.array([text.decode() for text in strings], dtype=object)
    # Trees and support vectors have one name for the numbers, linear models another.
    numbers = attributes.get("classlabels_int64s") or attributes.get("classlabels_ints") or []
    return np.array(numbers, dtype=np.int64)


def renormalised(graph: Graph, node: ClassifierNode, shifts: Floats, dtype: np.dtype[Any]) -> Edit:
    """A copy of the model with corrected probabilities and labels under the old names."""
    graph = graph.copy()
    raw = {name: graph.fresh(f"{name}_raw") for name in (node.labels, node.probabilities)}
    for name, new in raw.items():
        outputs = graph.makers[name].output
        outputs[list(outputs).index(name)] = new
    smallest = graph.add_initializer("energyalign_smallest", np.array([MIN_PROBABILITY], dtype))
    added = graph.add_initializer("energyalign_shifts", shifts.astype(dtype))
    classes = graph.add_initializer("energyalign_classes", node.classes)
    kept, log, logits, largest = (graph.fresh(f"energyalign_{one}") for one in ("kept", "log", "logits", "largest"))
    names = [graph.fresh(f"energyalign_{one}") for one in ("max", "log_node", "add", "softmax", "argmax", "gather")]
    new_nodes = [
        make_node("Max", [raw[node.probabilities], smallest], [kept], names[0]),
        make_node("Log", [kept], [log], names[1]),
        make_node("Add", [log, added], [logits], names[2]),
        make_node("Softmax", [logits], [node.probabilities], names[3], axis=1),
        make_node("ArgMax", [logits], [largest], names[4], axis=1, keepdims=0),
        make_node("Gather", [classes, largest], [node.labels], names[5], axis=0),
    ]
    follow = graph.downstream(node.labels) | graph.downstream(node.probabilities)
    behind = [one for one in graph.proto.node if not follow.isdisjoint(one.output)]
    before = [one for one in graph.proto.node if follow.isdisjoint(one.output)]
    nodes = [*before, *new_nodes, *behind]
    del graph.proto.node[:]
    graph.proto.node.extend(nodes)
    return Edit(graph.model, "renormalised", names[2], added)
