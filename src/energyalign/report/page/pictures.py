"""Every figure that the runs of a page allow, and why the others are not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.report.trainings import Training


class Pictures(NamedTuple):
    """SVG elements with their captions, and a sentence on each figure that could not be drawn."""

    drawn: list[tuple[str, str]]
    left_out: list[str]


def draw_pictures(trainings: Sequence[Training]) -> Pictures:
    """Cell by cell; none without matplotlib."""
    try:
        from energyalign.report.drawing import page_svg
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        return Pictures([], ["All figures: they need matplotlib (pip install 'energyalign[report]')."])
    from energyalign.report.figures import FIGURES

    drawn, left_out = [], []
    for cell in dict.fromkeys(training.cell for training in trainings):
        runs = [run for training in trainings if training.cell == cell for run in training.runs]
        for entry in FIGURES.values():
            try:
                drawn.append((page_svg(entry.draw(runs)), f"{cell}: {entry.description}."))
            except EnergyAlignError as error:
                left_out.append(f"{cell}: {error}")
    return Pictures(drawn, left_out)
