"""Energy aligning behind each optimizer."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.compared import draw_compared
from energyalign.report.labels import optimizer_name


def draw(runs: Sequence[StoredRun]) -> Figure:
    """A panel for each optimizer: bars of a long tail, curves over the steps of an incremental run."""
    return draw_compared(
        "optimizers", runs, varied="optimizer", value=optimizer_name,
        command="--optimizer sgd, and again with --optimizer adam",
    )  # fmt: skip
