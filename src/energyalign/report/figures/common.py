"""Helpers shared by figures: trainings, titles, notes, and the axis of classes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures import MissingRowsError
from energyalign.report.panels import text_scale
from energyalign.report.trainings import (
    ALIGNED,
    AS_TRAINED,
    Training,
    by_setting,
    describe_common,
    labels_of,
    printable,
    shorten,
)

_MAX_NAMES = 20
"""Maximum number of class names on an axis; with more classes, it has numbers."""
_MAX_NAMES_FULL_SIZE = 12
_MAX_UPRIGHT = 2
"""Maximum letters of a name below a bar; longer names are rotated."""
_LETTER_WIDTH = 0.075
_MAX_BARS = 40
"""Maximum number of bars with gaps and outlines, which would cover thinner bars."""


def trainings_of(figure: str, runs: Sequence[StoredRun]) -> list[Training]:
    """Group runs into trainings, in the given order; a repeated seed counts once."""
    if len({run.in_steps for run in runs}) != 1:
        raise EnergyAlignError(
            f"the figure {figure} must be of long-tailed or of incremental runs, got both: give folders of one kind."
        )
    groups = by_setting(runs)
    return [Training(*named) for named in zip(labels_of([seeds[0] for seeds in groups]), groups, strict=True)]


def check_one_cell(figure: str, trainings: Sequence[Training]) -> None:
    """Raise if trainings of several cells would share an axis."""
    cells = sorted({printable(training.cell) for training in trainings})
    if len(cells) > 1:
        names = ", ".join(cells)
        raise EnergyAlignError(f"the figure {figure} must be of one cell, got {names}: give runs of one cell.")


def about(trainings: Sequence[Training]) -> str:
    """Return the second line of a title: ``digits-lt-50, ce, cosine head, small-cnn, 3 seeds``."""
    runs = [run for training in trainings for run in training.runs]
    steps = {f"after step {training.step} of {training.runs[0].n_steps}" for training in trainings if training.step}
    when = steps.pop() if len(steps) == 1 else ""
    return describe_common(runs, [len(training.runs) for training in trainings], when, _chosen_evidence(trainings))


def panel_title(training: Training, trainings: Sequence[Training]) -> str:
    """Return the label of a training, if there are several, and its step, if steps differ."""
    label = training.label if len(trainings) > 1 else ""
    several = len({(each.step, each.runs[0].n_steps) for each in trainings}) > 1
    return f"{label}, after step {training.step}" if several else label


def seeds_behind(training: Training, corrector: str) -> str:
    """Return ``1 of 3 seeds`` if a corrector does not have rows of all seeds; empty otherwise."""
    measured, trained = len(training.measured(corrector)), len(training.runs)
    return f"{measured} of {count_of(trained, 'seed')}" if measured < trained else ""


def _chosen_evidence(trainings: Iterable[Training]) -> str:
    """Return the kind of evidence that is shown, if there are rows of several kinds."""
    for training in trainings:
        plans = {row.evidence for run in training.runs for row in run.rows if row.corrector == ALIGNED}
        if len(plans) > 1:
            return f"evidence {training.rows_of(ALIGNED)[0].evidence}"
    return ""


def missing_error(figure: str, needs: str, command: str) -> MissingRowsError:
    """Return an error that says what a figure needs, and which command makes it."""
    return MissingRowsError(f"the figure {figure} needs {needs}", command)


def with_and_without(figure: str, trainings: Sequence[Training]) -> tuple[list[Training], str]:
    """Return the trainings and seeds that have rows of raw and ea, and a note on those left out."""
    both = [shared for training in trainings if (shared := training.shared_by(AS_TRAINED, ALIGNED)).runs]
    rows = f"rows of {AS_TRAINED} and {ALIGNED}"
    if not both:
        command = f"{command_for(trainings)} --corrector {AS_TRAINED} {ALIGNED}"
        raise missing_error(figure, f"{rows} of one training", command)
    return both, note_left_out(trainings, both, f"no {rows}")


def command_for(trainings: Sequence[Training]) -> str:
    """Return the beginning of a command for further trainings of this kind."""
    return f"energyalign {'incremental' if trainings[0].in_steps else 'longtail'} DATASET"


def note_left_out(trainings: Sequence[Training], drawn: Collection[Training], why: str) -> str:
    """Return a note on the trainings and seeds that a figure leaves out; empty if there are none."""
    runs = [run for training in drawn for run in training.runs]
    others = []
    for training in trainings:
        missing = [run for run in training.runs if run not in runs]
        if len(missing) == len(training.runs):
            others.append(training.label)
        elif missing:
            others.append(f"{training.label}, seed {', '.join(str(run.config.seed) for run in missing)}")
    return f"Not shown ({why}): {'; '.join(others)}." if others else ""


def class_order(training: Training) -> NDArray[np.int64]:
    """Return the classes in their order on an axis: most training images first, or in order of arrival."""
    counts = training.counts
    return np.arange(len(counts)) if training.in_steps else np.argsort(-counts, kind="stable")


def describe_order(training: Training) -> str:
    """Return the order of classes in words, for the label of an axis."""
    return "in order of arrival" if training.in_steps else "most images first"


def room_for_names(trainings: Sequence[Training]) -> float:
    """Return the extra space in inches that names of classes need beside or below a panel."""
    named = [name for each in trainings if len(each.counts) <= _MAX_NAMES for name in each.class_names]
    longest = max((len(shorten(name)) for name in named), default=0)
    return _LETTER_WIDTH * longest * text_scale() if longest > _MAX_UPRIGHT else 0.0


def name_classes(axis: Any, training: Training) -> None:
    """Label an x or y axis with the names of the classes, or with numbers if there are too many."""
    names = [shorten(training.class_names[k]) for k in class_order(training)]
    if len(names) > _MAX_NAMES:
        axis.set_major_locator(MaxNLocator(5, integer=True))
        return
    axis.set_ticks(range(len(names)), names)
    if len(names) > _MAX_NAMES_FULL_SIZE:
        axis.set_tick_params(labelsize="small")
    if axis.axis_name == "x" and max(map(len, names)) > _MAX_UPRIGHT:
        axis.set_tick_params(labelrotation=90)


def draw_bars(
    axes: Axes, heights: NDArray[np.float64], *, first: int = 0, n_classes: int | None = None, **look: Any
) -> None:
    """Draw a bar for each class, starting at `first`; many classes are drawn as one shape without gaps."""
    if (n_classes or len(heights)) > _MAX_BARS:
        axes.stairs(heights, first - 0.5 + np.arange(len(heights) + 1), fill=True, **look)
    else:
        axes.bar(first + np.arange(len(heights)), heights, **look)
