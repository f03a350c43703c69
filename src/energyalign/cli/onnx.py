"""`energyalign onnx`: shifts into an ONNX model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from energyalign.onnx import AlignedOnnx
DESCRIPTION = (
    "Write a copy of an ONNX model whose logits come out with the shifts added: folded into the bias\n"
    "of its last layer, or by one Add node. Softmax, sigmoids and labels in the graph follow; all else stays.\n"
    "Probabilities and labels of tree ensembles and linear classifiers that skl2onnx wrote are corrected too.\n"
    "The copy is written only after onnxruntime has shown that it gives raw logits + shifts."
)
EXAMPLES = """\
examples:
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx --output probabilities
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx --probe inputs.npz
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", help="the model, with its data files beside it if it has any")
    add("--shifts", required=True, metavar="FILE", help="what `energyalign fit` wrote")
    add("--strength", type=float, default=1.0, metavar="X",
        help="multiply all that is added to the logits, the target prior included: 0 is the raw model, 1 (default) "
        "as it was fitted")  # fmt: skip
    add("--out", required=True, metavar="FILE", help="the model to write, another file than MODEL.onnx")
    add("--output", metavar="NAME",
        help="which output of the graph has the logits, their softmax or sigmoids, if several could")  # fmt: skip
    add("--probe", metavar="FILE.npz", help="inputs to verify on, one array for each input of the graph, by name "
        "(default: random numbers)")  # fmt: skip
    add("--quiet", action="store_true", help="print nothing but errors")


def run(arguments: argparse.Namespace) -> None:
    """Read, edit, verify, write, and say what was done."""
    from energyalign.core._io.atomic import check_outputs
    from energyalign.core.multilabel import load_shifts
    from energyalign.onnx import align_onnx, read_probe

    out = Path(arguments.out)
    check_outputs([out], [arguments.model, arguments.shifts, arguments.probe])
    shifts = load_shifts(arguments.shifts).scaled(arguments.strength)
    probe = None if arguments.probe is None else read_probe(arguments.probe)
    done = align_onnx(arguments.model, shifts, out, output=arguments.output, probe=probe)
    if not arguments.quiet:
        print(_report(done, given=probe is not None))


def _report(done: AlignedOnnx, *, given: bool) -> str:
    place = f"folded into {done.constant!r} of node {done.node!r}: the same graph, the same speed"
    if done.how == "added":
        place = f"added by one new node, {done.node!r}, behind what makes {done.logits!r}"
    measured = "the logits are raw + shifts"
    if done.how == "renormalised":
        place = f"added to logarithms of {done.logits!r}, normalised again, and labels follow"
        measured = "the probabilities are those of raw + shifts"
    outputs = ", ".join(f"{name!r} ({form})" for name, form in done.outputs.items())
    tried = "the probe" if given else f"{done.n_probes} random inputs"
    return (
        f"Wrote {' and '.join(map(str, done.files))}: shifts {place}.\n"
        f"Verified in onnxruntime on {tried}: {measured} within {done.largest_deviation:.1g}; "
        f"outputs that show them: {outputs}."
    )
