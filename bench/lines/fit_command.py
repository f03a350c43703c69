"""`energyalign fit` on a small file, from start to end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.command import energyalign, python
from bench.line import Line, at_most
from bench.lines.marginal import biased_logits
from bench.measure import alternate

SAMPLES, CLASSES = 10_000, 100
SCRIPT = """\
import json, sys
import numpy as np
energies = np.log(np.exp(np.load(sys.argv[1])).sum(axis=0))
with open(sys.argv[2], "w") as stream:
    json.dump((energies.max() - energies).tolist(), stream)
"""


def lines() -> Iterator[Line]:
    """Compare with a script without checks, standard errors and warnings."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logits, labels = folder / "logits.npy", folder / "labels.npy"
        np.save(logits, biased_logits(SAMPLES, CLASSES))
        np.save(labels, np.arange(SAMPLES) % CLASSES)
        fit = ["fit", logits, "--quiet", "--out", folder / "shifts.json"]
        works = {
            "--estimator lse": energyalign(*fit, "--estimator", "lse"),
            "--labels, held out (auto)": energyalign(*fit, "--labels", labels, "--evidence", "held-out"),
            "script": python("-c", SCRIPT, logits, folder / "script.json"),
        }
        seconds = alternate(works, rounds=21)
    for (options, taken), goal in zip(seconds.items(), (1.5, 3.0), strict=False):
        yield Line.of(
            "fit, end to end", f"energyalign fit, .npy of {SAMPLES:,} × {CLASSES}, --quiet, {options}",
            "a script that imports NumPy, loads, sums and writes JSON", at_most(goal), ours=taken,
            theirs=seconds["script"],
        )  # fmt: skip
