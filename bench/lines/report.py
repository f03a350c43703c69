"""The report page of a run with 1,000 classes and 50,000 test images, from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.command import energyalign, python
from bench.line import Line, at_most
from bench.measure import alternate
from bench.scratch import scratch_folder

CLASSES, PER_CLASS = 1_000, 50
_HELPERS = Path(__file__).parents[2] / "tests" / "helpers"
_SCRIPT = """
import sys
from matplotlib.figure import Figure
from safetensors.numpy import load_file
load_file(sys.argv[1])["logits"].sum()
Figure().savefig(sys.argv[2])
"""


def full_lines() -> Iterator[Line]:
    """Compare with a script that reads the logits and draws one empty figure."""
    sys.path.append(str(_HELPERS))
    from made_up_run import made_up_run

    with scratch_folder() as folder:
        run = made_up_run(folder / "run", [f"n{number:08d}" for number in range(CLASSES)], per_class=PER_CLASS)
        report = energyalign("report", run.path, "--out", folder / "report.html")
        script = python("-c", _SCRIPT, run.path / "test_logits.safetensors", folder / "empty.svg")
        seconds = alternate({"ours": report, "script": script})
    yield Line.of(
        "report", f"one run, {CLASSES * PER_CLASS:,} test images × {CLASSES:,}",
        "a script that reads the logits and draws one empty figure", at_most(5), ours=seconds["ours"],
        theirs=seconds["script"], limit="Report page", floor=12,
    )  # fmt: skip
