"""Which output of the graph is meant, where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from energyalign.core.errors import EnergyAlignError
from energyalign.onnx.comparing import Values
from energyalign.onnx.graph import Graph
from energyalign.onnx.logits import Logits, NotLogits, read_logits
from energyalign.onnx.walk import Walk, walk_back

_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")


def walks_from_outputs(graph: Graph, output: str | None, name: str) -> list[Walk]:
    """The ways back from all outputs, or from the one that the user named."""
    outputs = [one.name for one in graph.proto.output]
    if output is not None and output not in outputs:
        raise EnergyAlignError(f"{name} has no output {output!r}; it has {', '.join(map(repr, outputs))}.")
    return [walk_back(graph, one) for one in (outputs if output is None else [output])]


def find_logits(
    walks: Sequence[Walk], runs: Sequence[Values], types: dict[str, str], n_classes: int, name: str
) -> Logits:
    """The one tensor of logits behind these outputs.

    Logits and their softmax may both be outputs: they lead to the same tensor, and there is nothing to choose.
    """
    found: list[Logits] = []
    refused: list[str] = []
    for walk in walks:
        output = walk.tensors[0]
        try:
            if types[output] not in _FLOATS:
                raise NotLogits(f"holds {types[output]}")
            found.append(read_logits(walk, runs, n_classes))
        except NotLogits as reason:
            refused.append(f"output {output!r} {reason}")
    if not found:
        raise EnergyAlignError(
            f"{name} is without a recognisable logits output for {n_classes} classes: {'; '.join(refused)}. If the "
            "shifts are those of this model, export it again with the logits, before any softmax or sigmoid, as an "
            "output; or correct saved logits with `energyalign apply`."
        )
    if len({one.tensor for one in found}) > 1:
        outputs = ", ".join(repr(output) for one in found for output in one.outputs)
        raise EnergyAlignError(
            f"the outputs {outputs} of {name} could each be its logits: name one with --output (output=... in Python)."
        )
    return replace(found[0], outputs={output: form for one in found for output, form in one.outputs.items()})
