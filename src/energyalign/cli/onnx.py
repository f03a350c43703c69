"""`energyalign onnx`: add shifts to an ONNX model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from energyalign.cli.apply import add_shift_options

if TYPE_CHECKING:
    from energyalign.onnx import AlignedOnnx
DESCRIPTION = (
    "Write a copy of an ONNX model with the shifts added to its logits: folded into the bias of its last layer, or by "
    "one Add node. Softmax, sigmoid and label outputs change accordingly; everything else stays. Tree ensembles and "
    "linear classifiers exported by skl2onnx are supported too. The copy is written only after onnxruntime confirms "
    "that "
    "its logits are raw logits + shifts."
)
EXAMPLES = """\
examples:
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx --output probabilities
  energyalign onnx model.onnx --shifts shifts.json --out aligned.onnx --probe inputs.npz
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", help="the model; external data files must be in the same folder")
    add_shift_options(parser)
    add("--out", required=True, metavar="FILE", help="the model to write; must not be MODEL.onnx")
    add("--output", metavar="NAME",
        help="graph output with the logits, their softmax or their sigmoids; required if several outputs "
        "qualify")  # fmt: skip
    add("--probe", metavar="FILE.npz",
        help="inputs to verify with, one array for each graph input, by name (default: random numbers)")  # fmt: skip
    add("--quiet", action="store_true", help="print only errors")


def run(arguments: argparse.Namespace) -> None:
    """Read, edit, verify, write, print."""
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
        place = f"added by one new node, {done.node!r}, after {done.logits!r}"
    measured = "the logits are raw + shifts"
    if done.how == "renormalised":
        place = f"added to the logarithm of {done.logits!r}, which is normalised again; labels change accordingly"
        measured = "the probabilities agree with raw + shifts"
    outputs = ", ".join(f"{name!r} ({form})" for name, form in done.outputs.items())
    inputs = "the probe" if given else f"{done.n_probes} random inputs"
    return (
        f"Wrote {' and '.join(map(str, done.files))}: shifts {place}.\n"
        f"Verified in onnxruntime on {inputs}: {measured} within {done.largest_deviation:.1g}. "
        f"Aligned outputs: {outputs}."
    )
