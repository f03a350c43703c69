"""The trainings of a figure, and what it says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.labels import labels_of, seeds_and_settings
from energyalign.report.names import shown
from energyalign.report.trainings import ALIGNED, Training, by_setting


def trainings_of(figure: str, runs: Sequence[StoredRun]) -> list[Training]:
    """The runs by training, in the order in which they came; a seed that is given twice counts once."""
    if len({run.in_steps for run in runs}) != 1:
        raise EnergyAlignError(
            f"the figure {figure} is of long-tailed or of incremental runs, not of both: give the folders of one kind."
        )
    groups = by_setting(runs)
    return [Training(*named) for named in zip(labels_of([seeds[0] for seeds in groups]), groups, strict=True)]


def check_one_cell(figure: str, trainings: Sequence[Training]) -> None:
    """Refuse trainings on several data sets where they would share an axis."""
    cells = sorted({shown(training.cell) for training in trainings})
    if len(cells) > 1:
        raise EnergyAlignError(
            f"the figure {figure} is of one cell, and was given runs of {', '.join(cells)}: give the runs of one."
        )


def about(trainings: Sequence[Training]) -> str:
    """What they have in common, and how many: ``digits-lt-50, ce, cosine head, small-cnn, 3 seeds``."""
    runs = [run for training in trainings for run in training.runs]
    steps = {f"after step {training.step} of {training.runs[0].n_steps}" for training in trainings if training.step}
    when = steps.pop() if len(steps) == 1 else ""
    return seeds_and_settings(runs, [len(training.runs) for training in trainings], when, _preferred_evidence(runs))


def panel_title(training: Training, trainings: Sequence[Training]) -> str:
    """Its label; nothing if there is no other. With the step where that is not the same for all."""
    label = training.label if len(trainings) > 1 else ""
    several = len({(each.step, each.runs[0].n_steps) for each in trainings}) > 1
    return f"{label}, after step {training.step}" if several else label


def _preferred_evidence(runs: Iterable[StoredRun]) -> str:
    """Which evidence was taken, if there are rows of several kinds."""
    for run in runs:
        plans = {row.evidence for row in run.rows if row.corrector == ALIGNED}
        row = run.row_of(ALIGNED)
        if len(plans) > 1 and row is not None:
            return f"evidence {row.evidence}"
    return ""
