"""Every figure that the runs of a page allow, and why the others are not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.trainings import ALIGNED, Training, by_setting

_BY_TRAINING = (
    "energies", "confusion", "groups", "clusters", "shifts", "effective-samples", "strength", "reliability",
)  # fmt: skip
"""Figures with a panel for each training."""
_MOST_TRAININGS = 4


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
        few = _first_trainings(runs)
        for name, entry in FIGURES.items():
            shown, note = runs, ""
            if name in _BY_TRAINING and len(few) < len(runs):
                shown, note = few, f" The first {_MOST_TRAININGS} trainings; energyalign figure {name} draws all."
            try:
                drawn.append((page_svg(entry.draw(shown)), f"{cell}: {entry.description}.{note}"))
            except EnergyAlignError as error:
                left_out.append(f"{cell}: {error}")
    return Pictures(drawn, left_out)


def _first_trainings(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Of trainings that were measured under energy aligning, so many as can be looked at; all runs if they are few."""
    groups = by_setting(runs)
    if len(groups) <= _MOST_TRAININGS:
        return list(runs)
    groups.sort(key=lambda seeds: seeds[0].row_of(ALIGNED) is None)
    return [run for seeds in groups[:_MOST_TRAININGS] for run in seeds]
