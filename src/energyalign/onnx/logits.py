"""Find the tensor that holds the logits of a model, from its graph and from runs."""

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
# These output decisions, or probabilities of other kinds, to which shifts cannot be added.
_NOT_LOGITS = frozenset({*SIGMOIDS, "HardSigmoid", "ArgMax", "ArgMin", "TopK", "OneHot", "Exp", "Softplus", *SOFTMAXES})
_LAYERS = frozenset({"Gemm", "MatMul", "Conv", "Add"})
_FORMS: dict[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
    "logits": lambda logits, _axis: logits,
    "probabilities": lambda logits, axis: np.exp(log_softmax(logits, axis)),
    "log-probabilities": log_softmax,
    "sigmoids": lambda logits, _axis: sigmoid(logits),
}


class NotLogits(EnergyAlignError):
    """An output without recognisable logits; the message continues the sentence ``output 'x' ...``."""


class Head(NamedTuple):
    """A number to add to each column of logits, and the operators that may follow, with the forms of their outputs."""

    added: Floats
    squashes: Mapping[str, str]


def possible_heads(shifts: Shifts | MultilabelShifts) -> list[Head]:
    """Return possible heads: sigmoids for independent labels; a softmax for classes, or a single logit for two."""
    if isinstance(shifts, MultilabelShifts):
        return [Head(shifts.values, SIGMOIDS)]
    one_logit = [Head(shifts.columns_for((1, 1)), SIGMOIDS)] if shifts.n_classes == 2 else []
    return [Head(shifts.values, SOFTMAXES), *one_logit]


@dataclass(frozen=True)
class FoundLogits:
    """The logits of a model, and the graph outputs that are computed from them.

    Attributes
    ----------
    walk : Walk
        The walk back from the logits.
    added : array
        Number to add to each column.
    axis : int
        Axis of the columns.
    outputs : dict from str to str
        Outputs and their forms: ``logits``, ``probabilities``, ``log-probabilities`` or ``sigmoids``.
    """

    walk: Walk
    added: Floats
    axis: int
    outputs: dict[str, str]

    @property
    def tensor(self) -> str:
        """Name of the tensor that holds the logits."""
        return self.walk.tensors[0]


def read_logits(walk: Walk, runs: Sequence[Values], head: Head) -> FoundLogits:
    """Return the logits behind one output; raise `NotLogits` if there are none for this head."""
    depth, form = _depth_and_form(walk, runs, head.squashes)
    n_columns = len(head.added)
    rest = walk.from_depth(depth)
    logits = [values[rest.tensors[0]] for values in runs]
    outputs = [values[walk.tensors[0]] for values in runs]
    if rest.maker is None:
        raise NotLogits("is an input or a constant of the model")
    if form == "logits" and (rest.maker.domain == "ai.onnx.ml" or is_op(rest.maker, _NOT_LOGITS)):
        raise NotLogits(f"is made by {rest.maker.op_type}")
    axes = class_axes(logits[0].shape, n_columns) if n_columns > 1 else _axis_of_one(logits[0].shape)
    if not axes:
        raise NotLogits(f"has shape {outputs[0].shape}, without {count_of(n_columns, 'column')}")
    if any(np.isnan(array).any() for array in logits):
        raise NotLogits("is NaN for random inputs (give real ones with --probe)")
    axes = [axis for axis in axes if all(shows(*pair, form, axis) for pair in zip(outputs, logits, strict=True))]
    if len(axes) != 1:
        problem = "on more than one axis" if axes else "on one axis, but a softmax over another axis"
        raise NotLogits(f"has shape {outputs[0].shape}, with {n_columns} columns {problem}")
    if form == "logits" and head.squashes is SOFTMAXES and _are_probabilities(logits, axes[0]):
        raise NotLogits("holds probabilities, or their logarithms, without a recognisable Softmax node")
    if form == "logits" and head.squashes is SIGMOIDS and _are_sigmoids(logits, rest.maker):
        raise NotLogits("holds numbers from 0 to 1, without a recognisable Sigmoid node")
    return FoundLogits(rest, head.added, axes[0], {walk.tensors[0]: form})


def shows(output: NDArray[Any], logits: NDArray[Any], form: str, axis: int) -> bool:
    """Return whether an output is these logits in this form."""
    expected = _FORMS[form](logits, axis)
    return expected.size == output.size and close(output, expected.reshape(output.shape), like=logits)


def _axis_of_one(shape: tuple[int, ...]) -> list[int]:
    """Return the axis of the single column, or the axis of the samples if there is no other."""
    axis = class_axis(len(shape))
    return [axis] if len(shape) == 1 or (shape and shape[axis] == 1) else []


def _depth_and_form(walk: Walk, runs: Sequence[Values], squashes: Mapping[str, str]) -> tuple[int, str]:
    """Return how far back the numbers stay the same but for a softmax or sigmoid, and the form of the output."""
    depth, form = 0, "logits"
    for above, node, below in zip(walk.tensors, walk.nodes, walk.made[1:], strict=False):
        if below not in runs[0]:  # NumPy lacks its type, as for bfloat16 before a Cast
            break
        if is_op(node, squashes):
            form = squashes[node.op_type]
        elif not (is_op(node, COPIES) and all(_same(values[above], values[below]) for values in runs)):
            break
        depth += 1
    return depth, form


def _same(above: NDArray[Any], below: NDArray[Any]) -> bool:
    """Return whether two tensors are equal except for axes of length 1 and precision."""
    if below.dtype.kind != "f" or above.squeeze().shape != below.squeeze().shape:
        return False
    return close(above, below.reshape(above.shape), like=below)


def _are_probabilities(arrays: Sequence[NDArray[Any]], axis: int) -> bool:
    """Return whether all samples sum to one, directly or as logarithms."""
    with np.errstate(over="ignore"):
        candidates = ([np.exp(array) for array in arrays], [np.where(array < 0, np.nan, array) for array in arrays])
    return any(all(_sum_to_one(array, axis) for array in candidate) for candidate in candidates)


def _are_sigmoids(arrays: Sequence[NDArray[Any]], maker: Node) -> bool:
    """Return whether all numbers are from 0 to 1, and not the output of a layer, which may be so by chance."""
    return not is_op(maker, _LAYERS) and all(bool(np.all((array >= 0) & (array <= 1))) for array in arrays)


def _sum_to_one(array: NDArray[Any], axis: int) -> bool:
    return np.allclose(array.sum(axis=axis, dtype=np.float64), 1.0, rtol=0.0, atol=2e-3)


def walks_from_outputs(graph: Graph, output: str | None, squashes: Mapping[str, str], name: str) -> list[Walk]:
    """Walk back from all outputs, or from the output that the user named."""
    outputs = [one.name for one in graph.proto.output]
    if output is not None and output not in outputs:
        raise EnergyAlignError(f"{name} has no output {output!r}: choose one of {', '.join(map(repr, outputs))}.")
    return [walk_back(graph, one, squashes) for one in (outputs if output is None else [output])]


def find_logits(
    candidates: Sequence[tuple[Head, Sequence[Walk]]], runs: Sequence[Values], types: dict[str, str], name: str
) -> FoundLogits:
    """Return the logits of these outputs, for the first head that has any; raise if outputs have different logits.

    Logits and their softmax may both be outputs: they lead to the same tensor.
    """
    refused: list[str] = []
    for head, walks in candidates:
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
        f"{name} has no recognisable logits output for {len(candidates[0][0].added)} classes: "
        f"{'; '.join(dict.fromkeys(refused))}. Check that the shifts belong to this model, and export it again with "
        "the logits, before any softmax or sigmoid, as an output; or use `energyalign apply` on saved logits."
    )


def _single(found: Sequence[FoundLogits], name: str) -> FoundLogits:
    if len({one.tensor for one in found}) > 1:
        outputs = ", ".join(repr(output) for one in found for output in one.outputs)
        raise EnergyAlignError(
            f"outputs {outputs} of {name} could each be its logits: choose one with --output (output=... in Python)."
        )
    return replace(found[0], outputs={output: form for one in found for output, form in one.outputs.items()})
