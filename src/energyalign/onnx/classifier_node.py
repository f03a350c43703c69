"""Models that end in a classifier node of ai.onnx.ml, as skl2onnx exports tree ensembles and linear models.

They output labels and probabilities, but no logits. Shifts are added to the logarithms of the probabilities, followed
by a softmax and new labels.
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
_CLEAR = 1e-4  # minimum difference of the two largest probabilities: the label does not depend on rounding


@dataclass(frozen=True)
class ClassifierNode:
    """The classifier at the end of a graph.

    Attributes
    ----------
    labels, probabilities : str
        Tensors; between them and the outputs, nodes may only rename, cast and normalise them.
    classes : array of shape (n_classes,)
        Label of each column: numbers, or text.
    outputs : dict from str to str
        Graph outputs and their forms: ``labels`` or ``probabilities``.
    """

    labels: str
    probabilities: str
    classes: NDArray[Any]
    outputs: dict[str, str]

    def shifts_by_name(self, shifts: Shifts, name: str) -> Floats:
        """Return the shifts in the order of the columns. Columns named 0, 1, 2, ... are not reordered."""
        names = tuple(str(label) for label in self.classes.tolist())
        if shifts.class_names is None or names == numbers(len(names)):
            return shifts.values
        return shifts.values[order_by_name(shifts.class_names, names, "the shifts", f"those of {name}")]

    def has_probabilities(self, runs: Sequence[Values], n_classes: int) -> bool:
        """Return whether the runs gave one probability for each of `n_classes` classes."""
        arrays = [values[self.probabilities] for values in runs]
        return len(self.classes) == n_classes and all(
            one.dtype.kind == "f" and one.shape == (len(one), n_classes) and are_probabilities(one) for one in arrays
        )

    def align(self, raw: NDArray[Any], shifts: Floats) -> NDArray[np.float64]:
        """Return the expected probabilities of the aligned model."""
        return np.exp(log_softmax(np.log(np.maximum(raw.astype(np.float64), MIN_PROBABILITY)) + shifts, axis=1))

    def verify(
        self, before: Sequence[Values], after: Sequence[Values], shifts: Floats, unrelated: Sequence[str]
    ) -> float:
        """Compare runs of the raw and the edited model; return the largest deviation of a probability."""
        worst = 0.0
        for old, new in zip(before, after, strict=True):
            expected, aligned = self.align(old[self.probabilities], shifts), new[self.probabilities]
            worst = max(worst, largest_difference(aligned, expected))
            if not close(aligned, expected):
                raise NotAligned(f"the probabilities are off by {worst:.2g}")
            second, first = np.sort(expected, axis=1)[:, -2:].T
            clear = first - second > _CLEAR
            if not np.array_equal(new[self.labels][clear], self.classes[expected.argmax(axis=1)][clear]):
                raise NotAligned("labels do not belong to the largest probabilities")
            if not all(close(new[output], old[output]) for output in unrelated):
                raise NotAligned("an output that is not computed from the probabilities changed")
        return worst


def find_classifier_node(graph: Graph) -> ClassifierNode | None:
    """Return the classifier node behind the outputs; None if there is none, or more than one."""
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
    """Return the classifier node behind an output, the node's tensor that it comes from, and the tensor to replace."""
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
    # Tree ensembles and support vector machines use one name for integers, linear models another.
    numbers = attributes.get("classlabels_int64s") or attributes.get("classlabels_ints") or []
    return np.array(numbers, dtype=np.int64)


def renormalise(graph: Graph, node: ClassifierNode, shifts: Floats, dtype: np.dtype[Any]) -> Edit:
    """Return a copy of the model with aligned probabilities and labels under the old names."""
    graph = graph.copy()
    raw = {name: graph.unused_name(f"{name}_raw") for name in (node.labels, node.probabilities)}
    for name, new in raw.items():
        outputs = graph.makers[name].output
        outputs[list(outputs).index(name)] = new
    smallest = graph.add_initializer("energyalign_smallest", np.array([MIN_PROBABILITY], dtype))
    added = graph.add_initializer("energyalign_shifts", shifts.astype(dtype))
    classes = graph.add_initializer("energyalign_classes", node.classes)
    kept, log, logits, largest, *names = (
        graph.unused_name(f"energyalign_{one}")
        for one in ("kept", "log", "logits", "largest", "max", "log_node", "add", "softmax", "argmax", "gather")
    )
    new_nodes = [
        make_node("Max", [raw[node.probabilities], smallest], [kept], names[0]),
        make_node("Log", [kept], [log], names[1]),
        make_node("Add", [log, added], [logits], names[2]),
        make_node("Softmax", [logits], [node.probabilities], names[3], axis=1),
        make_node("ArgMax", [logits], [largest], names[4], axis=1, keepdims=0),
        make_node("Gather", [classes, largest], [node.labels], names[5], axis=0),
    ]
    downstream = graph.downstream(node.labels) | graph.downstream(node.probabilities)
    before = [one for one in graph.proto.node if downstream.isdisjoint(one.output)]
    after = [one for one in graph.proto.node if not downstream.isdisjoint(one.output)]
    nodes = [*before, *new_nodes, *after]
    del graph.proto.node[:]
    graph.proto.node.extend(nodes)
    return Edit(graph.model, "renormalised", names[2], added)
