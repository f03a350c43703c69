"""Energy aligning behind each head."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.compared import draw_compared


def draw(runs: Sequence[StoredRun]) -> Figure:
    """A panel for each head: bars of a long tail, curves over the steps of an incremental run."""
    return draw_compared(
        "heads", runs, varied="head", value=lambda run: f"{run.config.head} head",
        command="--head cosine, and again with --head linear",
    )  # fmt: skip
