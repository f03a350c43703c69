"""Which tensor of a model holds its logits: read off what the graph says and what a run shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.core.heads import class_axis
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.shifts import Shifts
from energyalign.onnx.comparing import Values, class_axes, close, log_softmax, sigmoid
from energyalign.onnx.graph import Graph, Node, is_op
from energyalign.onnx.walk import COPIES, SIGMOIDS, SOFTMAXES, Walk, walk_back

_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
# What comes out of these are decisions or probabilities of other kinds, to which shifts cannot be added.
_NOT_LOGITS = frozenset({*SIGMOIDS, "HardSigmoid", "ArgMax", "ArgMin", "TopK", "OneHot", "Exp", "Softplus", *SOFTMAXES})
_LAYERS = frozenset({"Gemm", "MatMul", "Conv", "Add"})
_FORMS: dict[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
    "logits": lambda logits, _axis: logits,
    "probabilities": lambda logits, axis: np.exp(log_softmax(logits, axis)),
    "log-probabilities": log_softmax,
    "sigmoids": lambda logits, _axis: sigmoid(logits),
}


class NotLogits(EnergyAlignError):
    """An output from which no logits can be told; the message is the rest of a sentence about it."""


class Head(NamedTuple):
    """A number for each column of logits, and the operators that may make an output of these, with its form."""

    added: Floats
    squashes: Mapping[str, str]


def possible_heads(shifts: Shifts | MultilabelShifts) -> list[Head]:
    """Independent labels have a sigmoid each; classes a softmax, and two classes perhaps a single logit."""
    if isinstance(shifts, MultilabelShifts):
        return [Head(shifts.values, SIGMOIDS)]
    one_logit = [Head(shifts.columns_for((1, 1)), SIGMOIDS)] if shifts.n_classes == 2 else []
    return [Head(shifts.values, SOFTMAXES), *one_logit]


@dataclass(frozen=True)
class FoundLogits:
    """The tensor to correct, and what the outputs of the graph make of it.

    Attributes
    ----------
    way : Walk
        From this tensor further back.
    added : array
        A number for each column.
    axis : int
        The columns.
    outputs : dict from str to str
        Outputs that show these logits: as ``logits``, ``probabilities``, ``log-probabilities`` or ``sigmoids``.
    """

    way: Walk
    added: Floats
    axis: int
    outputs: dict[str, str]

    @property
    def tensor(self) -> str:
        return self.way.tensors[0]


def read_logits(walk: Walk, runs: Sequence[Values], head: Head) -> FoundLogits:
    """The logits behind one output.

    Raises
    ------
    NotLogits
        If there are none for this head, with the reason.
    """
    depth, form = _depth_and_form(walk, runs, head.squashes)
    n_columns = len(head.added)
    rest = walk.from_depth(depth)
    logits = [values[rest.tensors[0]] for values in runs]
    outputs = [values[walk.tensors[0]] for values in runs]
    if rest.maker is None:
        raise NotLogits("comes straight from an input or a constant of the model")
    if form == "logits" and (rest.maker.domain == "ai.onnx.ml" or is_op(rest.maker, _NOT_LOGITS)):
        raise NotLogits(f"is made by {rest.maker.op_type}")
    axes = class_axes(logits[0].shape, n_columns) if n_columns > 1 else _axis_of_one(logits[0].shape)
    if not axes:
        raise NotLogits(f"has shape {outputs[0].shape}, without {count_of(n_columns, 'column')}")
    if any(np.isnan(array).any() for array in logits):
        raise NotLogits("is NaN on the inputs that were tried: give real ones with --probe")
    axes = [axis for axis in axes if all(shows(*pair, form, axis) for pair in zip(outputs, logits, strict=True))]
    if len(axes) != 1:
        trouble = "on more than one axis" if axes else "but softmax over something else"
        raise NotLogits(f"has shape {outputs[0].shape}, {n_columns} columns {trouble}")
    if form == "logits" and head.squashes is SOFTMAXES and _are_probabilities(logits, axes[0]):
        raise NotLogits("holds probabilities, or their logarithms, and no Softmax node was recognised behind it")
    if form == "logits" and head.squashes is SIGMOIDS and _are_sigmoids(logits, rest.maker):
        raise NotLogits("holds numbers from 0 to 1, and no Sigmoid node was recognised behind it")
    return FoundLogits(rest, head.added, axes[0], {walk.tensors[0]: form})


def shows(output: NDArray[Any], logits: NDArray[Any], form: str, axis: int) -> bool:
    """Whether an output is these logits in this form."""
    wanted = _FORMS[form](logits, axis)
    return wanted.size == output.size and close(output, wanted.reshape(output.shape), like=logits)


def _axis_of_one(shape: tuple[int, ...]) -> list[int]:
    """The axis of the single column, or that of the samples if there is no other."""
    axis = class_axis(len(shape))
    return [axis] if len(shape) == 1 or (shape and shape[axis] == 1) else []


def _depth_and_form(walk: Walk, runs: Sequence[Values], squashes: Mapping[str, str]) -> tuple[int, str]:
    """How far back the numbers are the same, but for a softmax or sigmoid, and in what form the output shows them."""
    depth, form = 0, "logits"
    for above, node, below in zip(walk.tensors, walk.nodes, walk.made[1:], strict=False):
        if below not in runs[0]:  # of a type that NumPy has not: bfloat16 that is cast
            break
        if is_op(node, squashes):
            form = squashes[node.op_type]
        elif not (is_op(node, COPIES) and all(_same(values[above], values[below]) for values in runs)):
            break
        depth += 1
    return depth, form


def _same(above: NDArray[Any], below: NDArray[Any]) -> bool:
    """Whether two tensors are the same numbers but for axes of length 1 and the precision."""
    if below.dtype.kind != "f" or above.squeeze().shape != below.squeeze().shape:
        return False
    return close(above, below.reshape(above.shape), like=below)


def _are_probabilities(arrays: Sequence[NDArray[Any]], axis: int) -> bool:
    """Whether all samples sum to one, as they are or as logarithms."""
    with np.errstate(over="ignore"):
        candidates = ([np.exp(array) for array in arrays], [np.where(array < 0, np.nan, array) for array in arrays])
    return any(all(_sum_to_one(array, axis) for array in candidate) for candidate in candidates)


def _are_sigmoids(arrays: Sequence[NDArray[Any]], maker: Node) -> bool:
    """Whether all are from 0 to 1; a layer may give such numbers by chance."""
    return not is_op(maker, _LAYERS) and all(bool(np.all((array >= 0) & (array <= 1))) for array in arrays)


def _sum_to_one(array: NDArray[Any], axis: int) -> bool:
    return np.allclose(array.sum(axis=axis, dtype=np.float64), 1.0, rtol=0.0, atol=2e-3)


def walks_from_outputs(graph: Graph, output: str | None, squashes: Mapping[str, str], name: str) -> list[Walk]:
    """The ways back from all outputs, or from the one that the user named."""
    outputs = [one.name for one in graph.proto.output]
    if output is not None and output not in outputs:
        raise EnergyAlignError(f"{name} has no output {output!r}; it has {', '.join(map(repr, outputs))}.")
    return [walk_back(graph, one, squashes) for one in (outputs if output is None else [output])]


def find_logits(
    ways: Sequence[tuple[Head, Sequence[Walk]]], runs: Sequence[Values], types: dict[str, str], name: str
) -> FoundLogits:
    """The one tensor of logits behind these outputs, of the first head that there is.

    Logits and their softmax may both be outputs: they lead to the same tensor, and there is nothing to choose.
    """
    refused: list[str] = []
    for head, walks in ways:
        found = []
        for walk in walks:
            output = walk.tensors[0]
            try:
                if types[output] not in _FLOATS:
                    raise NotLogits(f"holds {types[output]}")
                found.append(read_logits(walk, runs, head))
            except NotLogits as reason:
                refused.append(f"output {output!r} {reason}")
        if found:
            return _single(found, name)
    raise EnergyAlignError(
        f"{name} is without a recognisable logits output for {len(ways[0][0].added)} classes: "
        f"{'; '.join(dict.fromkeys(refused))}. If the shifts are those of this model, export it again with the logits, "
        "before any softmax or sigmoid, as an output; or correct saved logits with `energyalign apply`."
    )


def _single(found: Sequence[FoundLogits], name: str) -> FoundLogits:
    if len({one.tensor for one in found}) > 1:
        outputs = ", ".join(repr(output) for one in found for output in one.outputs)
        raise EnergyAlignError(
            f"the outputs {outputs} of {name} could each be its logits: name one with --output (output=... in Python)."
        )
    return replace(found[0], outputs={output: form for one in found for output, form in one.outputs.items()})
