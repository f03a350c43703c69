"""`energyalign apply`: add shifts to files of logits, and write logits, probabilities or labels."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.core.multilabel import MultilabelShifts
    from energyalign.core.shifts import Shifts

DESCRIPTION = "Add shifts to logits, block by block: memory use does not grow with the files."
EXAMPLES = """\
examples:
  energyalign apply test_logits.npy --shifts shifts.json --out corrected.npy
  energyalign apply shards/*.npy --shifts shifts.json --as labels --out predictions.csv
  export_logits | energyalign apply - --shifts shifts.json --out - > corrected.npy
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("logits", nargs="+", metavar="LOGITS",
        help=".npy, .npz, .parquet or .csv files, samples x classes; - reads stdin")  # fmt: skip
    add_shift_options(parser)
    add("--out", required=True, metavar="FILE", help=".npy, .csv or .parquet file to write; - is .npy to stdout")
    add("--as", dest="form", default="logits", choices=["logits", "probabilities", "labels"],
        help="what to write (default: logits); labels are class names, or class indices without names")  # fmt: skip
    add("--key", help="name of the .npz array, or of the .parquet list column, that holds the logits")
    add("--quiet", action="store_true", help="print only warnings and errors")


def add_shift_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that applies shifts."""
    parser.add_argument("--shifts", required=True, metavar="FILE", help="shifts that `energyalign fit` wrote")
    parser.add_argument(
        "--strength", type=float, default=1.0, metavar="X",
        help="multiply the shifts, target prior included: 0 is the raw model, 1 (default) applies them as fitted",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Read logits, add the shifts, write the result."""
    import numpy as np

    from energyalign.cli.process import keep_freed_memory
    from energyalign.cli.terminal import Progress
    from energyalign.core._io.atomic import check_outputs
    from energyalign.core.errors import count_of
    from energyalign.core.multilabel import load_shifts
    from energyalign.files import matrix_writer, open_shards

    keep_freed_memory()  # for the next block
    check_outputs([arguments.out], [*arguments.logits, arguments.shifts])
    shifts = load_shifts(arguments.shifts).scaled(arguments.strength)
    shards = open_shards(arguments.logits, key=arguments.key)
    shards.match_columns(shifts, arguments.logits[0], arguments.shifts)
    names = shards.class_names or shifts.class_names
    forms: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "logits": (lambda block: shifts.apply(block, inplace=block.flags.writeable), shards.dtype),
        "probabilities": (shifts.predict_proba, "float64" if shards.dtype == "float64" else "float32"),
        "labels": _labels(shifts, names),
    }
    convert, dtype = forms[arguments.form]
    row_shape = convert(np.zeros((1, *shards.sample_shape), dtype=shards.dtype)).shape[1:]
    if row_shape != (shards.n_classes,) or arguments.form == "labels":
        names = None
    with (
        warnings.catch_warnings(record=True) as caught,
        Progress(quiet=arguments.quiet) as progress,
        matrix_writer(arguments.out, shards.n_samples, row_shape, dtype, names) as writer,
    ):
        warnings.simplefilter("always")
        for block in progress.watch("applying shifts", shards):
            writer.write(convert(block))
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"energyalign: warning: {message}", file=sys.stderr)
    if not arguments.quiet and arguments.out != "-":
        print(f"Wrote {arguments.form} of {count_of(shards.n_samples, 'sample')} to {arguments.out}.")


def _labels(shifts: Shifts | MultilabelShifts, names: Sequence[str] | None) -> tuple[Callable[[Any], Any], Any]:
    """Return a function that turns logits into labels, and the type of these labels.

    Labels are class names, or class indices if the classes have no names; for independent labels, 0 and 1.
    """
    import numpy as np

    from energyalign.core.names import numbers
    from energyalign.core.shifts import Shifts

    if names is None or tuple(names) == numbers(len(names)) or not isinstance(shifts, Shifts):
        return shifts.predict, "int64"
    labels = np.array(names, dtype=str)
    return lambda block: labels[shifts.predict(block)], labels.dtype
